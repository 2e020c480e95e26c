package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/routing"
)

// maxKeyDays is the longest life of a key that does not live for ever.
const maxKeyDays = 36500

// NewKey is what CreateKey needs.
type NewKey struct {
	User    string // owner; of a service key its maintainer
	Label   string
	Expires time.Duration // 0: the group's default; negative: never
	Scopes  []identity.Scope
	Models  []string
	Limits  identity.Limits

	Class          llm.Class
	Boundary       llm.Boundary
	ReasoningField string
	Service        bool
	Group          string // of a service key
	Strategy       string // of a service key
}

// CreateKey makes an API key and returns its secret, which is kept nowhere.
func (s *Service) CreateKey(ctx context.Context, a Actor, n NewKey) (secret string, key identity.Key, err error) {
	if len(n.Scopes) == 0 {
		n.Scopes = []identity.Scope{identity.ScopeInference}
	}
	if err := a.check(manageKeys); err != nil {
		return "", key, err
	}
	if err := n.check(); err != nil {
		return "", key, err
	}
	issued, secret, err := identity.Issue(identity.Key{}, s.cfg.MAC) // slow, so before the transaction
	if err != nil {
		return "", key, err
	}
	err = s.change(ctx, a, manageKeys, "key.create", func(tx Tx) (string, any, error) {
		if key, err = s.newKey(ctx, tx, a, n); err != nil {
			return "", nil, err
		}
		key.ID, key.Prefix, key.Tag, key.TagKey, key.Hash = issued.ID, issued.Prefix, issued.Tag, issued.TagKey, issued.Hash
		detail := map[string]any{
			"user": n.User, "label": key.Label, "scopes": key.Scopes, "expires": key.ExpiresAt, "service": key.Service,
		}
		return "key/" + key.Prefix, detail, tx.SaveKey(ctx, key)
	})
	if err != nil {
		return "", identity.Key{}, err
	}
	return secret, key, nil
}

func (n NewKey) check() error {
	var errs []error
	if strings.TrimSpace(n.Label) == "" || len(n.Label) > 128 || !utf8.ValidString(n.Label) || strings.ContainsFunc(n.Label, unicode.IsControl) {
		errs = append(errs, invalid("name", "a key needs a name of at most 128 bytes, without control characters"))
	}
	if n.Expires > maxKeyDays*24*time.Hour {
		errs = append(errs, invalid("expires", "a key lives at most %d days, or for ever", maxKeyDays))
	}
	for _, m := range n.Models {
		if m == "" || len(m) > 256 || !utf8.ValidString(m) || strings.ContainsFunc(m, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			errs = append(errs, invalid("models", "%q is no name of a model or an alias", m))
		}
	}
	for _, sc := range n.Scopes {
		if sc != identity.ScopeInference && sc != identity.ScopeAdmin {
			errs = append(errs, invalid("scopes", "%q is none of inference, admin", sc))
		}
	}
	if !slices.Contains([]llm.Class{"", llm.ClassInteractive, llm.ClassStandard, llm.ClassBatch}, n.Class) {
		errs = append(errs, invalid("class", "%q is none of interactive, standard, batch", n.Class))
	}
	if !slices.Contains([]llm.Boundary{"", llm.BoundaryAny, llm.BoundaryCampus}, n.Boundary) {
		errs = append(errs, invalid("boundary", "%q is none of any, campus", n.Boundary))
	}
	if !slices.Contains([]string{"", "reasoning_content", "reasoning", "both"}, n.ReasoningField) {
		errs = append(errs, invalid("reasoning-field", "%q is none of reasoning_content, reasoning, both", n.ReasoningField))
	}
	if l := n.Limits; l.RequestsPerMinute < 0 || l.TokensPerMinute < 0 || l.TokenBudget < 0 || l.MaxConcurrent < 0 {
		errs = append(errs, invalid("limits", "a limit cannot be negative"))
	}
	switch {
	case n.Service && n.Group == "":
		errs = append(errs, invalid("group", "a service key belongs to a group"))
	case !n.Service && n.Group != "":
		errs = append(errs, invalid("group", "only a service key has a group of its own"))
	case !n.Service && n.Strategy != "":
		errs = append(errs, invalid("strategy", "only a service key has a strategy"))
	case n.Strategy != "" && !routing.Strategy(n.Strategy).Valid():
		errs = append(errs, invalid("strategy", "%q is no strategy", n.Strategy))
	}
	return errors.Join(errs...)
}

// newKey checks n against its owner and group and fills in what they decide.
func (s *Service) newKey(ctx context.Context, tx Tx, a Actor, n NewKey) (identity.Key, error) {
	user, err := tx.UserByName(ctx, n.User)
	if err != nil {
		return identity.Key{}, missing("user", n.User, err)
	}
	if user.Disabled {
		return identity.Key{}, refused(ErrRefused, "user", "%s is disabled", n.User)
	}
	if err := mayTouch(a, user); err != nil { // a key speaks for its owner
		return identity.Key{}, err
	}
	if slices.Contains(n.Scopes, identity.ScopeAdmin) && user.Role == identity.RoleUser {
		return identity.Key{}, refused(ErrRefused, "scopes", "%s has the role user; the scope admin needs a role that administers", n.User)
	}
	group, err := s.keyGroup(ctx, tx, n, user)
	if err != nil {
		return identity.Key{}, err
	}
	if group.Disabled {
		return identity.Key{}, refused(ErrRefused, "group", "%s is disabled", group.Name)
	}
	now := s.cfg.Now()
	if err := checkKeyCount(ctx, tx, user, group, n, now); err != nil {
		return identity.Key{}, err
	}
	key := identity.Key{
		Label: n.Label, UserID: user.ID, Service: n.Service, Scopes: n.Scopes, Models: n.Models, Limits: n.Limits,
		Class: n.Class, Boundary: n.Boundary, ReasoningField: n.ReasoningField, Strategy: n.Strategy, CreatedAt: now,
	}
	if n.Service {
		key.GroupID = group.ID
	}
	switch {
	case n.Expires > 0:
		key.ExpiresAt = now.Add(n.Expires)
	case n.Expires == 0 && group.KeyExpiryDays > 0:
		key.ExpiresAt = now.AddDate(0, 0, group.KeyExpiryDays)
	}
	return key, nil
}

func (s *Service) keyGroup(ctx context.Context, tx Tx, n NewKey, user identity.User) (identity.Group, error) {
	if n.Service {
		g, err := tx.GroupByName(ctx, n.Group)
		if err != nil {
			return g, missing("group", n.Group, err)
		}
		return g, nil
	}
	groups, err := tx.Groups(ctx)
	if err != nil {
		return identity.Group{}, err
	}
	for _, g := range groups {
		if g.ID == user.GroupID {
			return g, nil
		}
	}
	return identity.Group{}, fmt.Errorf("user %s: group is missing", user.Name)
}

func checkKeyCount(ctx context.Context, r Reader, user identity.User, g identity.Group, n NewKey, now time.Time) error {
	if n.Service || g.MaxKeys == 0 {
		return nil
	}
	keys, err := r.Keys(ctx, user.ID)
	if err != nil {
		return err
	}
	live := 0
	for _, k := range keys {
		if k.Live(now) && !k.Service {
			live++
		}
	}
	if live >= g.MaxKeys {
		return refused(ErrRefused, "user", "%s has %d live keys, as many as the group %s allows", n.User, live, g.Name)
	}
	return nil
}

// KeyInfo is a key with the names of its owner and group.
type KeyInfo struct {
	identity.Key
	User  string
	Group string // of a service key
}

// Keys lists all keys, newest first.
func (s *Service) Keys(ctx context.Context, a Actor) ([]KeyInfo, error) {
	var out []KeyInfo
	err := s.view(ctx, a, func(r Reader) error {
		groups, err := groupNames(ctx, r)
		if err != nil {
			return err
		}
		users, err := r.Users(ctx)
		if err != nil {
			return err
		}
		names := map[identity.UserID]string{}
		for _, u := range users {
			names[u.ID] = u.Name
		}
		keys, err := r.Keys(ctx, "")
		for _, k := range keys {
			out = append(out, KeyInfo{Key: k, User: names[k.UserID], Group: groups[k.GroupID]})
		}
		return err
	})
	return out, err
}

// RevokeKey ends a key by its prefix, with or without mr2_, or by the whole key. It acts within a second everywhere and cannot be undone.
func (s *Service) RevokeKey(ctx context.Context, a Actor, prefix string) error {
	prefix = strings.TrimPrefix(prefix, "mr2_")
	if len(prefix) > identity.PrefixLen { // a whole key: its secret part belongs into no message
		prefix = prefix[:identity.PrefixLen]
	}
	return s.change(ctx, a, manageKeys, "key.revoke", func(tx Tx) (string, any, error) {
		keys, err := tx.KeysByPrefix(ctx, prefix)
		if err != nil {
			return "", nil, fmt.Errorf("read key: %w", err)
		}
		switch {
		case len(keys) == 0:
			return "", nil, missing("key", prefix, identity.ErrNotFound)
		case len(keys) > 1:
			return "", nil, refused(ErrRefused, "key", "%d keys have the prefix %q", len(keys), prefix)
		}
		key := keys[0]
		if !key.RevokedAt.IsZero() {
			return "", nil, nil
		}
		key.RevokedAt = s.cfg.Now()
		return "key/" + key.Prefix, nil, tx.SaveKey(ctx, key)
	})
}
