package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mindrouter/internal/identity"
)

// MinPassword is the least length of a password, in characters.
const MinPassword = 12

// NewUser is what CreateUser needs.
type NewUser struct {
	Name     string
	Email    string
	Group    string
	Role     identity.Role
	Password string // empty: cannot sign in locally
}

// CreateUser makes an account.
func (s *Service) CreateUser(ctx context.Context, a Actor, n NewUser) (identity.User, error) {
	u := identity.User{
		ID: identity.UserID(newID()), Name: n.Name, Email: n.Email, Role: n.Role, CreatedAt: s.cfg.Now(),
	}
	if err := a.check(manageUsers); err != nil {
		return u, err
	}
	if err := errors.Join(checkName("name", n.Name), checkEmail(n.Email), checkRole(a, n.Role)); err != nil {
		return u, err
	}
	if n.Password != "" {
		hash, err := hashPassword(n.Password)
		if err != nil {
			return u, err
		}
		u.PasswordHash = hash
	}
	err := s.change(ctx, a, manageUsers, "user.create", func(tx Tx) (string, any, error) {
		g, err := tx.GroupByName(ctx, n.Group)
		if err != nil {
			return "", nil, missing("group", n.Group, err)
		}
		u.GroupID = g.ID
		if err := tx.SaveUser(ctx, u); errors.Is(err, identity.ErrExists) {
			return "", nil, refused(identity.ErrExists, "name", "there is a user %q already", n.Name)
		} else if err != nil {
			return "", nil, fmt.Errorf("save user %s: %w", n.Name, err)
		}
		return "user/" + u.Name, map[string]any{"group": g.Name, "role": u.Role, "email": u.Email}, nil
	})
	return u, err
}

// UserInfo is a user with the name of its group.
type UserInfo struct {
	identity.User
	Group string
}

// Users lists all users by name.
func (s *Service) Users(ctx context.Context, a Actor) ([]UserInfo, error) {
	var out []UserInfo
	err := s.view(ctx, a, func(r Reader) error {
		groups, err := groupNames(ctx, r)
		if err != nil {
			return err
		}
		users, err := r.Users(ctx)
		for _, u := range users {
			out = append(out, UserInfo{User: u, Group: groups[u.GroupID]})
		}
		return err
	})
	return out, err
}

// DisableUser locks an account: its keys stop working within a second. The last admin cannot be locked.
func (s *Service) DisableUser(ctx context.Context, a Actor, name string) error {
	return s.setDisabled(ctx, a, name, "user.disable", true)
}

// EnableUser unlocks an account.
func (s *Service) EnableUser(ctx context.Context, a Actor, name string) error {
	return s.setDisabled(ctx, a, name, "user.enable", false)
}

func (s *Service) setDisabled(ctx context.Context, a Actor, name, action string, disabled bool) error {
	return s.change(ctx, a, manageUsers, action, func(tx Tx) (string, any, error) {
		u, err := tx.UserByName(ctx, name)
		if err != nil {
			return "", nil, missing("user", name, err)
		}
		if err := mayTouch(a, u); err != nil {
			return "", nil, err
		}
		if u.Disabled == disabled {
			return "", nil, nil
		}
		if disabled && administers(u) {
			if err := checkOtherAdmin(ctx, tx, u); err != nil {
				return "", nil, err
			}
		}
		u.Disabled = disabled
		return "user/" + name, nil, tx.SaveUser(ctx, u)
	})
}

// SetPassword replaces a user's password.
func (s *Service) SetPassword(ctx context.Context, a Actor, name, password string) error {
	if err := a.check(manageUsers); err != nil { // before the costly hash
		return err
	}
	hash, err := hashPassword(password)
	if err != nil {
		return err
	}
	return s.change(ctx, a, manageUsers, "user.reset-password", func(tx Tx) (string, any, error) {
		u, err := tx.UserByName(ctx, name)
		if err != nil {
			return "", nil, missing("user", name, err)
		}
		if err := mayTouch(a, u); err != nil {
			return "", nil, err
		}
		u.PasswordHash = hash
		return "user/" + name, nil, tx.SaveUser(ctx, u)
	})
}

// mayTouch keeps a scoped role from taking over an account with more rights.
func mayTouch(a Actor, u identity.User) error {
	if a.Role != identity.RoleAdmin && u.Role != identity.RoleUser {
		return fmt.Errorf("%w: %s has the role %s", ErrForbidden, u.Name, u.Role)
	}
	return nil
}

// checkOtherAdmin makes sure that somebody can still administer.
func checkOtherAdmin(ctx context.Context, r Reader, u identity.User) error {
	users, err := r.Users(ctx)
	if err != nil {
		return err
	}
	for _, other := range users {
		if other.ID != u.ID && administers(other) {
			return nil
		}
	}
	return refused(ErrRefused, "user", "%s is the last admin", u.Name)
}

// administers reports whether u can administer.
func administers(u identity.User) bool { return u.Role == identity.RoleAdmin && !u.Disabled }

func hashPassword(password string) (string, error) {
	if utf8.RuneCountInString(password) < MinPassword {
		return "", invalid("password", "has %d characters; use at least %d", utf8.RuneCountInString(password), MinPassword)
	}
	return identity.HashPassword(password)
}

func checkEmail(email string) error {
	if email == "" {
		return nil
	}
	local, domain, ok := strings.Cut(email, "@")
	odd := func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune("<>,;", r) || r == utf8.RuneError
	}
	if !ok || local == "" || domain == "" || strings.Contains(domain, "@") || strings.ContainsFunc(email, odd) || len(email) > 254 {
		return invalid("email", "%q is no e-mail address", email)
	}
	return nil
}

func checkRole(a Actor, r identity.Role) error {
	switch {
	case !r.Valid():
		return invalid("role", "%q is none of user, auditor, helpdesk, key_manager, model_operator, admin", r)
	case r != identity.RoleUser && a.Role != identity.RoleAdmin:
		return fmt.Errorf("%w: only admins give the role %s", ErrForbidden, r)
	}
	return nil
}

// missing says which thing is not there.
func missing(kind, name string, err error) error {
	if errors.Is(err, identity.ErrNotFound) {
		return refused(identity.ErrNotFound, kind, "there is no %s %q", kind, name)
	}
	return fmt.Errorf("read %s %s: %w", kind, name, err)
}

func groupNames(ctx context.Context, r Reader) (map[identity.GroupID]string, error) {
	groups, err := r.Groups(ctx)
	names := map[identity.GroupID]string{}
	for _, g := range groups {
		names[g.ID] = g.Name
	}
	return names, err
}
