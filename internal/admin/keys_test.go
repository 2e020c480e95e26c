package admin_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"mindrouter/internal/admin"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
	"mindrouter/internal/secret"
)

// key makes a key that must be made.
func (b *bench) key(n admin.NewKey) (string, identity.Key) {
	b.t.Helper()
	text, key, err := b.CreateKey(b.t.Context(), operator, n)
	if err != nil {
		b.t.Fatal(err)
	}
	return text, key
}

// authenticate is what the door says of a key at its first use.
func (b *bench) authenticate(text string) (identity.Principal, error) {
	keys := identity.NewKeys(identity.KeysConfig{
		Store: b.store, MAC: b.ring.MAC(secret.PurposeKeyTag), Version: func() uint64 { return 1 }, Hashers: 1,
	})
	return keys.Authenticate(b.t.Context(), text, "127.0.0.1")
}

func TestCreateKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u := b.user("alice", identity.RoleUser)
	n := admin.NewKey{
		User: "alice", Label: "laptop", Expires: 48 * time.Hour, Models: []string{"a", "b"},
		Limits: identity.Limits{RequestsPerMinute: 1, TokensPerMinute: 2, TokenBudget: 3, MaxConcurrent: 4},
		Class:  llm.ClassBatch, Boundary: llm.BoundaryCampus, ReasoningField: "both",
	}
	text, key := b.key(n)
	if !strings.HasPrefix(text, "mr2_"+key.Prefix) {
		t.Errorf("the key does not begin with its prefix %q", key.Prefix)
	}
	stored, err := b.store.KeysByPrefix(t.Context(), key.Prefix)
	if err != nil || len(stored) != 1 || !reflect.DeepEqual(stored[0], key) {
		t.Errorf("stored %+v, %v; want %+v", stored, err, key)
	}
	if key.UserID != u.ID || key.Label != n.Label || !key.ExpiresAt.Equal(now.Add(48*time.Hour)) || key.Limits != n.Limits ||
		key.Class != n.Class || key.Boundary != n.Boundary || key.ReasoningField != "both" || key.Service || key.GroupID != "" ||
		!reflect.DeepEqual(key.Models, n.Models) || !reflect.DeepEqual(key.Scopes, []identity.Scope{identity.ScopeInference}) {
		t.Errorf("key %+v is not what was asked for", key)
	}
	p, err := b.authenticate(text)
	if err != nil || p.User.ID != u.ID || p.Group.Name != "students" {
		t.Errorf("the key opens for %+v, %v", p, err)
	}
	if strings.Contains(b.dump(), text[len("mr2_")+identity.PrefixLen:]) {
		t.Error("the secret is stored")
	}
	list, err := b.Keys(t.Context(), operator)
	if err != nil || len(list) != 1 || list[0].User != "alice" || list[0].Group != "" {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestLifeOfKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	b.apply("groups: [{name: forever, weight: 1, key_expiry_days: 0}, {name: week, weight: 1, key_expiry_days: 7}]\n" +
		"users: [{name: bob, group: forever}, {name: carol, group: week}]")
	for rule, c := range map[string]struct {
		key  admin.NewKey
		want time.Time
	}{
		"the group decides":             {admin.NewKey{User: "carol"}, now.AddDate(0, 0, 7)},
		"90 days are seeded":            {admin.NewKey{User: "alice"}, now.AddDate(0, 0, 90)},
		"a group may let keys live":     {admin.NewKey{User: "bob"}, time.Time{}},
		"asking beats the group":        {admin.NewKey{User: "carol", Expires: time.Hour}, now.Add(time.Hour)},
		"never beats the group":         {admin.NewKey{User: "carol", Expires: -1}, time.Time{}},
		"a service key has its group's": {admin.NewKey{User: "alice", Service: true, Group: "week"}, now.AddDate(0, 0, 7)},
	} {
		c.key.Label = rule
		if _, key := b.key(c.key); !key.ExpiresAt.Equal(c.want) {
			t.Errorf("%s: the key expires at %v, want %v", rule, key.ExpiresAt, c.want)
		}
	}
}

func TestNumberOfKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply("groups: [{name: few, weight: 1, max_keys: 2}, {name: many, weight: 1, max_keys: 0}]\n" +
		"users: [{name: alice, group: few}, {name: bob, group: few}, {name: carol, group: many}]")
	_, first := b.key(admin.NewKey{User: "alice", Label: "1"})
	b.key(admin.NewKey{User: "alice", Label: "2"})
	try := func(n admin.NewKey) error { n.Label = "x"; return third(b.CreateKey(t.Context(), operator, n)) }
	wantField(t, "a third key", try(admin.NewKey{User: "alice"}), "user", admin.ErrRefused)
	if err := try(admin.NewKey{User: "bob"}); err != nil {
		t.Errorf("the limit binds each user: %v", err)
	}
	if err := try(admin.NewKey{User: "alice", Service: true, Group: "few"}); err != nil {
		t.Errorf("service keys are the group's, not the user's: %v", err)
	}
	if err := b.RevokeKey(t.Context(), operator, first.Prefix); err != nil {
		t.Fatal(err)
	}
	if err := try(admin.NewKey{User: "alice", Expires: time.Hour}); err != nil {
		t.Errorf("a revoked key makes room: %v", err)
	}
	wantField(t, "a third live key", try(admin.NewKey{User: "alice"}), "user", admin.ErrRefused)
	for range 5 {
		if err := try(admin.NewKey{User: "carol"}); err != nil {
			t.Errorf("0 is no limit: %v", err)
		}
	}
}

func TestScopesOfKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	both := []identity.Scope{identity.ScopeInference, identity.ScopeAdmin}
	for _, role := range []identity.Role{
		identity.RoleUser, identity.RoleAuditor, identity.RoleHelpdesk, identity.RoleKeyManager, identity.RoleModelOperator, identity.RoleAdmin,
	} {
		name := "u-" + string(role)
		b.user(name, role)
		_, key, err := b.CreateKey(t.Context(), operator, admin.NewKey{User: name, Label: "x", Scopes: both})
		if role == identity.RoleUser {
			wantField(t, "scope admin for the role user", err, "scopes", admin.ErrRefused)
		} else if err != nil || !reflect.DeepEqual(key.Scopes, both) {
			t.Errorf("scope admin for the role %s: %v, scopes %v", role, err, key.Scopes)
		}
	}
}

func TestServiceKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u := b.user("alice", identity.RoleUser)
	text, key := b.key(admin.NewKey{User: "alice", Label: "app", Service: true, Group: "staff", Strategy: "cheapest"})
	if !key.Service || key.UserID != u.ID || key.Strategy != "cheapest" {
		t.Errorf("service key %+v", key)
	}
	p, err := b.authenticate(text)
	if err != nil || p.Group.Name != "staff" || p.Tenant() != "service:"+string(key.ID) {
		t.Errorf("the key opens as %s of %s, %v; want its own tenant in staff", p.Tenant(), p.Group.Name, err)
	}
	list, err := b.Keys(t.Context(), operator)
	if err != nil || len(list) != 1 || list[0].Group != "staff" {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestCreateKeyRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	b.user("locked", identity.RoleUser)
	if err := b.DisableUser(t.Context(), operator, "locked"); err != nil {
		t.Fatal(err)
	}
	if err := b.store.InTx(t.Context(), func(tx admin.Tx) error {
		return tx.SaveGroup(t.Context(), identity.Group{ID: "g", Name: "closed", Disabled: true})
	}); err != nil {
		t.Fatal(err)
	}
	for rule, c := range map[string]struct {
		change func(*admin.NewKey)
		field  string
		reason error
	}{
		"no name":                        {func(n *admin.NewKey) { n.Label = " " }, "name", nil},
		"a name with a line end":         {func(n *admin.NewKey) { n.Label = "a\nb" }, "name", nil},
		"a name that is no text":         {func(n *admin.NewKey) { n.Label = "\xff" }, "name", nil},
		"an unknown user":                {func(n *admin.NewKey) { n.User = "bob" }, "user", identity.ErrNotFound},
		"a disabled user":                {func(n *admin.NewKey) { n.User = "locked" }, "user", admin.ErrRefused},
		"an unknown scope":               {func(n *admin.NewKey) { n.Scopes = []identity.Scope{"root"} }, "scopes", nil},
		"an unknown class":               {func(n *admin.NewKey) { n.Class = "first" }, "class", nil},
		"an unknown boundary":            {func(n *admin.NewKey) { n.Boundary = "external" }, "boundary", nil},
		"an unknown reasoning field":     {func(n *admin.NewKey) { n.ReasoningField = "thoughts" }, "reasoning-field", nil},
		"a negative limit":               {func(n *admin.NewKey) { n.Limits.TokenBudget = -1 }, "limits", nil},
		"a model without a name":         {func(n *admin.NewKey) { n.Models = []string{"a", ""} }, "models", nil},
		"a life beyond all reason":       {func(n *admin.NewKey) { n.Expires = 1 << 62 }, "expires", nil},
		"a group for an ordinary key":    {func(n *admin.NewKey) { n.Group = "staff" }, "group", nil},
		"a strategy for an ordinary key": {func(n *admin.NewKey) { n.Strategy = "fair" }, "strategy", nil},
		"a service key without a group":  {func(n *admin.NewKey) { n.Service = true }, "group", nil},
		"a service key of no group":      {func(n *admin.NewKey) { n.Service, n.Group = true, "aliens" }, "group", identity.ErrNotFound},
		"a service key of a closed one":  {func(n *admin.NewKey) { n.Service, n.Group = true, "closed" }, "group", admin.ErrRefused},
		"an unknown strategy":            {func(n *admin.NewKey) { n.Service, n.Group, n.Strategy = true, "staff", "luck" }, "strategy", nil},
	} {
		n := admin.NewKey{User: "alice", Label: "x"}
		c.change(&n)
		text, _, err := b.CreateKey(t.Context(), operator, n)
		wantField(t, rule, err, c.field, c.reason)
		if text != "" {
			t.Errorf("%s: a key is returned all the same", rule)
		}
	}
	b.read(func(ctx context.Context, r admin.Reader) error {
		keys, err := r.Keys(ctx, "")
		if len(keys) != 0 {
			t.Errorf("%d keys are stored", len(keys))
		}
		return err
	})
}

func TestAllProblemsOfAKeyAreToldAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.CreateKey(t.Context(), operator, admin.NewKey{Class: "first", Boundary: "moon", ReasoningField: "x"})
	for _, field := range []string{"name: ", "class: ", "boundary: ", "reasoning-field: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.user("alice", identity.RoleUser)
	for rule, name := range map[string]func(text string, k identity.Key) string{
		"by prefix":             func(_ string, k identity.Key) string { return k.Prefix },
		"by prefix as shown":    func(_ string, k identity.Key) string { return "mr2_" + k.Prefix },
		"by the key as a whole": func(text string, _ identity.Key) string { return text },
	} {
		text, key := b.key(admin.NewKey{User: "alice", Label: rule})
		if err := b.RevokeKey(t.Context(), operator, name(text, key)); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
		if _, err := b.authenticate(text); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%s: the revoked key still opens: %v", rule, err)
		}
	}
	err := b.RevokeKey(t.Context(), operator, "mr2_ABCDEFGHthis-is-the-secret-part")
	wantField(t, "unknown", err, "key", identity.ErrNotFound)
	if err != nil && strings.Contains(err.Error(), "secret-part") {
		t.Errorf("the error shows the secret: %v", err)
	}
}
