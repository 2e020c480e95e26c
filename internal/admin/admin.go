// Package admin is the only way to change the configuration. The command line, the cluster file, the JSON API and the
// pages all call it: it checks the permission, makes the change and records who made it, in one transaction.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"mindrouter/internal/identity"
)

// Actor is who asks for a change.
type Actor struct {
	Name string
	Role identity.Role
	Via  string // cli, api, web
}

// Operator is somebody at the command line of the server: whoever can open the database may do everything.
func Operator(name string) Actor { return Actor{Name: name, Role: identity.RoleAdmin, Via: "cli"} }

// ErrForbidden says that the actor's role does not allow a change. What is wrong with the input is a *FieldError. Callers
// branch with errors.Is and errors.As.
var ErrForbidden = errors.New("your role does not allow this")

// ErrRefused says that the state of things forbids a change whose input is right.
var ErrRefused = errors.New("refused")

// FieldError blames one field of the input.
type FieldError struct {
	Field   string
	Message string
	// Err is why: identity.ErrNotFound, identity.ErrExists or ErrRefused. Nil if the value could never be right.
	Err error
}

// Error names the field.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// invalid blames a value that could never be right.
func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// refused blames a value that does not fit how things stand, for the reason err.
func refused(err error, field, format string, args ...any) error {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...), Err: err}
}

// permission is something that roles allow.
type permission string

const (
	readConfig  permission = "read configuration"
	manageUsers permission = "manage users"
	manageKeys  permission = "manage keys"
	manageFleet permission = "manage backends and models"
	manageAll   permission = "manage everything"
)

// allowed says which roles have a permission beside admins, who have all.
var allowed = map[permission][]identity.Role{
	readConfig:  {identity.RoleAuditor, identity.RoleHelpdesk, identity.RoleKeyManager, identity.RoleModelOperator},
	manageUsers: {identity.RoleHelpdesk},
	manageKeys:  {identity.RoleKeyManager},
	manageFleet: {identity.RoleModelOperator},
	manageAll:   nil,
}

func (a Actor) check(p permission) error {
	if a.Role == identity.RoleAdmin || slices.Contains(allowed[p], a.Role) {
		return nil
	}
	return fmt.Errorf("%w: %s (role %s)", ErrForbidden, p, a.Role)
}

// Config configures [New].
type Config struct {
	Store Store
	MAC   identity.MAC
	Now   func() time.Time
	// ReadSecret resolves env:NAME and file:PATH.
	ReadSecret func(ref string) (string, error)
}

// Service makes changes. It is safe for concurrent use.
type Service struct {
	cfg Config
}

// New returns the service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// change runs fn in a transaction with a record of the change. fn returns what was changed and how; if it returns an
// empty target nothing is recorded.
func (s *Service) change(ctx context.Context, a Actor, p permission, action string, fn func(Tx) (target string, detail any, err error)) error {
	if err := a.check(p); err != nil {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx Tx) error {
		target, detail, err := fn(tx)
		if err != nil || target == "" {
			return err
		}
		return s.record(ctx, tx, a, action, target, detail)
	})
}

func (s *Service) record(ctx context.Context, tx Tx, a Actor, action, target string, detail any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("describe change: %w", err)
	}
	return tx.RecordChange(ctx, Change{
		ID: newID(), At: s.cfg.Now(), Actor: a.Name, Via: a.Via, Action: action, Target: target, Detail: string(text),
	})
}

// view runs fn on a snapshot.
func (s *Service) view(ctx context.Context, a Actor, fn func(Reader) error) error {
	if err := a.check(readConfig); err != nil {
		return err
	}
	return s.cfg.Store.View(ctx, fn)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// namePattern is what users, groups, nodes, backends and aliases may be called.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)

func checkName(field, name string) error {
	if !namePattern.MatchString(name) {
		return invalid(field, "%q is no name: want letters, digits and . _ @ + -, at most 128", name)
	}
	return nil
}
