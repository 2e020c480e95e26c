package admin_test

import (
	"strings"
	"testing"

	"mindrouter/internal/admin"
	"mindrouter/internal/identity"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u, err := b.CreateUser(t.Context(), operator, admin.NewUser{
		Name: "alice", Email: "alice@example.edu", Group: "staff", Role: identity.RoleAuditor, Password: "correct horse battery",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := b.stored("alice")
	if got != u || got.Email != "alice@example.edu" || got.Role != identity.RoleAuditor || !got.CreatedAt.Equal(now) {
		t.Errorf("stored %+v, returned %+v", got, u)
	}
	if !strings.HasPrefix(got.PasswordHash, "$argon2id$") || strings.Contains(got.PasswordHash, "horse") {
		t.Errorf("password is stored as %q", got.PasswordHash)
	}
	list, err := b.Users(t.Context(), operator)
	if err != nil || len(list) != 1 || list[0].Group != "staff" {
		t.Errorf("list %+v, %v; want alice of staff", list, err)
	}
}

func TestCreateUserRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("taken", identity.RoleUser)
	for rule, c := range map[string]struct {
		change func(*admin.NewUser)
		field  string
		reason error
	}{
		"an empty name":              {func(n *admin.NewUser) { n.Name = "" }, "name", nil},
		"a name with a blank":        {func(n *admin.NewUser) { n.Name = "a b" }, "name", nil},
		"a name with a control":      {func(n *admin.NewUser) { n.Name = "a\x00b" }, "name", nil},
		"a name too long":            {func(n *admin.NewUser) { n.Name = strings.Repeat("a", 129) }, "name", nil},
		"a name that is taken":       {func(n *admin.NewUser) { n.Name = "taken" }, "name", identity.ErrExists},
		"an e-mail without domain":   {func(n *admin.NewUser) { n.Email = "alice@" }, "email", nil},
		"an e-mail with a line end":  {func(n *admin.NewUser) { n.Email = "a@b\nc" }, "email", nil},
		"an e-mail with two domains": {func(n *admin.NewUser) { n.Email = "a@b@c" }, "email", nil},
		"an e-mail with a NUL":       {func(n *admin.NewUser) { n.Email = "a@b\x00" }, "email", nil},
		"an unknown role":            {func(n *admin.NewUser) { n.Role = "king" }, "role", nil},
		"an unknown group":           {func(n *admin.NewUser) { n.Group = "aliens" }, "group", identity.ErrNotFound},
		"a short password":           {func(n *admin.NewUser) { n.Password = "elevenchars" }, "password", nil},
	} {
		n := admin.NewUser{Name: "alice", Email: "alice@example.edu", Group: "staff", Role: identity.RoleUser}
		c.change(&n)
		_, err := b.CreateUser(t.Context(), operator, n)
		wantField(t, rule, err, c.field, c.reason)
	}
	if list, err := b.Users(t.Context(), operator); err != nil || len(list) != 1 {
		t.Errorf("users %+v, %v; want none beside the first", list, err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	if err := b.SetPassword(t.Context(), operator, "alice", "zwölf ümläut"); err != nil { // twelve characters, more bytes
		t.Fatal(err)
	}
	if b.stored("alice").PasswordHash == "" {
		t.Error("no password is stored")
	}
	wantField(t, "short", b.SetPassword(t.Context(), operator, "alice", "short"), "password", nil)
	wantField(t, "unknown user", b.SetPassword(t.Context(), operator, "bob", "correct horse battery"), "user", identity.ErrNotFound)
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("one", identity.RoleAdmin)
	b.user("clerk", identity.RoleHelpdesk)
	wantField(t, "disable the last admin", b.DisableUser(t.Context(), operator, "one"), "user", admin.ErrRefused)
	b.user("two", identity.RoleAdmin)
	if err := b.DisableUser(t.Context(), operator, "one"); err != nil {
		t.Errorf("disable one of two admins: %v", err)
	}
	wantField(t, "disable the last enabled admin", b.DisableUser(t.Context(), operator, "two"), "user", admin.ErrRefused)
	if b.stored("two").Disabled {
		t.Error("the last admin is disabled")
	}
	if err := b.DisableUser(t.Context(), operator, "one"); err != nil {
		t.Errorf("disable who is disabled: %v", err)
	}
	if err := b.EnableUser(t.Context(), operator, "one"); err != nil || b.stored("one").Disabled {
		t.Errorf("enable: %v; disabled %t", err, b.stored("one").Disabled)
	}
	wantField(t, "unknown user", b.DisableUser(t.Context(), operator, "nobody"), "user", identity.ErrNotFound)
}
