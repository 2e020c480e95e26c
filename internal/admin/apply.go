package admin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"

	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
)

// ApplyOptions say how a file is applied.
type ApplyOptions struct {
	DryRun bool // change nothing
	Prune  bool // delete groups, nodes, backends, models and aliases that the file does not name; never users
	// Warn, if not nil, is told of keys in the file that have no effect yet.
	Warn func(line string)
}

// Difference is one line of what a file changes.
type Difference struct {
	Op     string   `json:"op"` // + made, ~ changed, - deleted
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Fields []string `json:"fields,omitempty"` // of a change: field: old -> new
}

// String is the line of a diff.
func (d Difference) String() string {
	s := d.Op + " " + d.Kind
	if d.Name != "" {
		s += " " + d.Name
	}
	for _, f := range d.Fields {
		s += "\n    " + f
	}
	return s
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// Apply makes the configuration as the file says, in one transaction, and returns what it changed. It is idempotent. A
// file that does not fit changes nothing; the error names every problem with its line.
func (s *Service) Apply(ctx context.Context, a Actor, p *ParsedCluster, o ApplyOptions) ([]Difference, error) {
	if err := a.check(manageAll); err != nil {
		return nil, err
	}
	if o.Warn != nil {
		for _, w := range p.Warnings() {
			o.Warn(w)
		}
	}
	secrets, problems := s.readSecrets(p)
	var diff []Difference
	err := s.cfg.Store.InTx(ctx, func(tx Tx) error {
		ap := &applier{s: s, tx: tx, p: p, prune: o.Prune, secrets: secrets, problems: problems}
		if err := ap.run(ctx); err != nil {
			return err
		}
		diff = ap.diff
		if o.DryRun {
			return errDryRun
		}
		if len(diff) == 0 {
			return nil
		}
		return s.record(ctx, tx, a, "cluster.apply", "cluster", diff)
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return diff, err
}

// applier applies one file in one transaction.
type applier struct {
	s        *Service
	tx       Tx
	p        *ParsedCluster
	prune    bool
	catalog  backend.Catalog
	groups   []identity.Group
	users    []identity.User
	secrets  map[string]string // by path
	diff     []Difference
	problems []located
}

func (ap *applier) run(ctx context.Context) error {
	var err error
	if ap.catalog, err = ap.tx.Catalog(ctx); err != nil {
		return err
	}
	if ap.groups, err = ap.tx.Groups(ctx); err != nil {
		return err
	}
	if ap.users, err = ap.tx.Users(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		ap.applySettings, ap.applyGroups, ap.applyNodes, ap.applyModels, ap.applyAliases, ap.applyBackends, ap.applyUsers,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if len(ap.problems) > 0 {
		return ap.p.join(ap.problems)
	}
	if ap.prune {
		return ap.pruneAll(ctx)
	}
	return nil
}

func (ap *applier) problem(path, format string, args ...any) {
	ap.problems = append(ap.problems, located{ap.p.shape.at(path), path, fmt.Sprintf(format, args...)})
}

// changed compares two entries as they stand in a file and notes the difference. It reports whether there is one.
func (ap *applier) changed(kind, name string, exists bool, before, after any) bool {
	if !exists {
		ap.diff = append(ap.diff, Difference{Op: "+", Kind: kind, Name: name})
		return true
	}
	fields := fieldDiff(before, after)
	if len(fields) > 0 {
		ap.diff = append(ap.diff, Difference{Op: "~", Kind: kind, Name: name, Fields: fields})
	}
	return len(fields) > 0
}

// fieldDiff lists the fields in which two entries differ, as they would stand in a file.
func fieldDiff(before, after any) []string {
	old, fresh := asMap(before), asMap(after)
	keys := sortedKeys(old)
	for _, k := range sortedKeys(fresh) {
		if _, ok := old[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		if !reflect.DeepEqual(old[k], fresh[k]) {
			out = append(out, fmt.Sprintf("%s: %s -> %s", k, show(old[k]), show(fresh[k])))
		}
	}
	return out
}

func show(v any) string {
	if v == nil {
		return "(default)"
	}
	text, err := yaml.MarshalWithOptions(v, yaml.Flow(true))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text[:max(0, len(text)-1)]) // without the line end
}

func asMap(v any) map[string]any {
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err)) // our own plain structs
	}
	var m map[string]any
	if err := yaml.Unmarshal(text, &m); err != nil {
		panic(fmt.Sprintf("unmarshal %T: %v", v, err))
	}
	return m
}

func find[T any](list []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	var zero T
	return zero, false
}

func (ap *applier) applySettings(ctx context.Context) error {
	f := ap.p.Settings
	if f == nil {
		return nil
	}
	after := f.settings()
	if !ap.changed("settings", "", true, clusterSettings(ap.catalog.Settings), clusterSettings(after)) {
		return nil
	}
	return ap.tx.SaveSettings(ctx, after)
}

func (ap *applier) applyGroups(ctx context.Context) error {
	for _, f := range ap.p.Groups {
		old, exists := find(ap.groups, func(g identity.Group) bool { return g.Name == f.Name })
		g := old
		if !exists {
			g = identity.Group{ID: identity.GroupID(newID()), CreatedAt: ap.s.cfg.Now()}
		}
		g = f.fill(g)
		if !ap.changed("group", f.Name, exists, clusterGroup(old), clusterGroup(g)) {
			continue
		}
		if err := ap.tx.SaveGroup(ctx, g); err != nil {
			return fmt.Errorf("save group %s: %w", f.Name, err)
		}
		if !exists {
			ap.groups = append(ap.groups, g)
		}
	}
	return nil
}

// readSecrets resolves the references of a file, by their paths, before the transaction begins: a file may be slow to
// read. What does not resolve is a problem of the file.
func (s *Service) readSecrets(p *ParsedCluster) (secrets map[string]string, problems []located) {
	secrets = map[string]string{}
	read := func(path, ref string) {
		if ref == "" {
			return
		}
		v, err := s.cfg.ReadSecret(ref)
		switch {
		case err != nil:
			problems = append(problems, located{p.shape.at(path), path, err.Error()})
		case v == "":
			problems = append(problems, located{p.shape.at(path), path, ref + " is empty"})
		case strings.ContainsFunc(v, unicode.IsControl):
			problems = append(problems, located{p.shape.at(path), path, ref + " holds a control character, such as a line end in its middle"})
		}
		secrets[path] = v
	}
	for i, n := range p.Nodes {
		read(fmt.Sprintf("nodes[%d].sidecar_secret", i), n.SidecarSecret)
	}
	for i, b := range p.Backends {
		read(fmt.Sprintf("backends[%d].api_key", i), b.APIKey)
	}
	return secrets, problems
}

func (ap *applier) applyNodes(ctx context.Context) error {
	for i, f := range ap.p.Nodes {
		old, exists := find(ap.catalog.Nodes, func(n backend.Node) bool { return n.Name == f.Name })
		n := old
		if !exists {
			n = backend.Node{ID: newID(), CreatedAt: ap.s.cfg.Now()}
		}
		n = f.fill(n, ap.secrets[fmt.Sprintf("nodes[%d].sidecar_secret", i)])
		changed := ap.changed("node", f.Name, exists, clusterNode(old), clusterNode(n))
		if !changed && n.SidecarSecret == old.SidecarSecret {
			continue
		}
		if !changed {
			ap.diff = append(ap.diff, Difference{Op: "~", Kind: "node", Name: f.Name, Fields: []string{"sidecar_secret: new value"}})
		}
		if err := ap.tx.SaveNode(ctx, n); err != nil {
			return fmt.Errorf("save node %s: %w", f.Name, err)
		}
	}
	return nil
}

func (ap *applier) applyBackends(ctx context.Context) error {
	for i, f := range ap.p.Backends {
		path := fmt.Sprintf("backends[%d]", i)
		if f.Node != "" && !ap.nodeExists(f.Node) {
			ap.problem(path+".node", "there is no node %q", f.Node)
		}
		old, exists := find(ap.catalog.Backends, func(b backend.Config) bool { return b.Name == f.Name })
		b := old
		if !exists {
			b = backend.Config{ID: newID(), CreatedAt: ap.s.cfg.Now()}
		}
		b, err := f.fill(b, ap.secrets[path+".api_key"])
		if err != nil {
			return err
		}
		before, err := clusterBackend(old)
		if err != nil {
			return err
		}
		after, err := clusterBackend(b)
		if err != nil {
			return err
		}
		changed := ap.changed("backend", f.Name, exists, before, after)
		if !changed && b.APIKey == old.APIKey {
			continue
		}
		if !changed {
			ap.diff = append(ap.diff, Difference{Op: "~", Kind: "backend", Name: f.Name, Fields: []string{"api_key: new value"}})
		}
		if err := ap.tx.SaveBackend(ctx, b); err != nil {
			return fmt.Errorf("save backend %s: %w", f.Name, err)
		}
	}
	return nil
}

func (ap *applier) nodeExists(name string) bool {
	named := func(n ClusterNode) bool { return n.Name == name }
	stored := func(n backend.Node) bool { return n.Name == name }
	return slices.ContainsFunc(ap.p.Nodes, named) || (!ap.prune && slices.ContainsFunc(ap.catalog.Nodes, stored))
}

func (ap *applier) applyModels(ctx context.Context) error {
	for i, f := range ap.p.Models {
		if _, taken := find(ap.catalog.Aliases, func(a routing.Alias) bool { return a.Name == f.Name }); taken && !ap.prune {
			ap.problem(fmt.Sprintf("models[%d].name", i), "%q is the name of an alias", f.Name)
		}
		old, exists := find(ap.catalog.Models, func(m backend.ModelConfig) bool { return m.Name == f.Name })
		m := old
		if !exists {
			m.CreatedAt = ap.s.cfg.Now()
		}
		m, err := f.fill(m)
		if err != nil {
			return err
		}
		before, err := clusterModel(old)
		if err != nil {
			return err
		}
		after, err := clusterModel(m)
		if err != nil {
			return err
		}
		if !ap.changed("model", f.Name, exists, before, after) {
			continue
		}
		if err := ap.tx.SaveModel(ctx, m); err != nil {
			return fmt.Errorf("save model %s: %w", f.Name, err)
		}
	}
	return nil
}

func (ap *applier) applyAliases(ctx context.Context) error {
	isAlias := func(name string) func(routing.Alias) bool {
		return func(a routing.Alias) bool { return a.Name == name }
	}
	for i, f := range ap.p.Aliases {
		for j, t := range f.Targets {
			if _, taken := find(ap.catalog.Aliases, isAlias(t.Model)); taken && !ap.prune {
				ap.problem(fmt.Sprintf("aliases[%d].targets[%d]", i, j), "%q is an alias itself; an alias has models as targets", t.Model)
			}
		}
		if _, taken := find(ap.catalog.Models, func(m backend.ModelConfig) bool { return m.Name == f.Name }); taken && !ap.prune {
			ap.problem(fmt.Sprintf("aliases[%d].name", i), "%q is the name of a model", f.Name)
		}
		if by, ok := ap.targetOf(f.Name); ok {
			ap.problem(fmt.Sprintf("aliases[%d].name", i), "%q is a target of the alias %q; an alias has models as targets", f.Name, by)
		}
		old, exists := find(ap.catalog.Aliases, isAlias(f.Name))
		fresh := f.alias()
		if !ap.changed("alias", f.Name, exists, clusterAlias(old), clusterAlias(fresh)) {
			continue
		}
		if err := ap.tx.SaveAlias(ctx, fresh); err != nil {
			return fmt.Errorf("save alias %s: %w", f.Name, err)
		}
	}
	return nil
}

// targetOf finds an alias outside the file that has name as a target and stays.
func (ap *applier) targetOf(name string) (string, bool) {
	if ap.prune {
		return "", false
	}
	a, ok := find(ap.catalog.Aliases, func(a routing.Alias) bool {
		return !slices.ContainsFunc(ap.p.Aliases, func(f ClusterAlias) bool { return f.Name == a.Name }) &&
			slices.ContainsFunc(a.Targets, func(t routing.Target) bool { return t.Model == name })
	})
	return a.Name, ok
}

func (ap *applier) applyUsers(ctx context.Context) error {
	names := map[identity.GroupID]string{}
	for _, g := range ap.groups {
		names[g.ID] = g.Name
	}
	var demoted []int
	for i, f := range ap.p.Users {
		g, ok := find(ap.groups, func(g identity.Group) bool { return g.Name == f.Group })
		if !ok {
			ap.problem(fmt.Sprintf("users[%d].group", i), "there is no group %q", f.Group)
			continue
		}
		old, exists := find(ap.users, func(u identity.User) bool { return u.Name == f.Name })
		u := old
		if !exists {
			u = identity.User{ID: identity.UserID(newID()), CreatedAt: ap.s.cfg.Now()}
		}
		u = f.fill(u, g.ID)
		if !ap.changed("user", f.Name, exists, clusterUser(old, names), clusterUser(u, names)) {
			continue
		}
		if exists && administers(old) && !administers(u) {
			demoted = append(demoted, i)
		}
		if err := ap.tx.SaveUser(ctx, u); err != nil {
			return fmt.Errorf("save user %s: %w", f.Name, err)
		}
	}
	// What counts is who is left in the end: a file may hand the role from one to another.
	if len(demoted) == 0 {
		return nil
	}
	users, err := ap.tx.Users(ctx)
	if err != nil || slices.ContainsFunc(users, administers) {
		return err
	}
	for _, i := range demoted {
		ap.problem(fmt.Sprintf("users[%d].role", i), "nobody would be left who administers")
	}
	return nil
}

// pruneAll deletes what the lists of the file do not name, dependants first.
func (ap *applier) pruneAll(ctx context.Context) error {
	p := ap.p
	users, err := ap.tx.Users(ctx)
	if err != nil {
		return err
	}
	var errs []error
	prune := func(list string, remove func() error) {
		if p.shape.has(list) { // a kind that the file does not speak of is left alone
			errs = append(errs, remove())
		}
	}
	prune("aliases", func() error {
		return pruneKind(ap, "alias", ap.catalog.Aliases, func(a routing.Alias) string { return a.Name },
			names(p.Aliases, func(f ClusterAlias) string { return f.Name }),
			func(a routing.Alias) error { return ap.tx.DeleteAlias(ctx, a.Name) })
	})
	prune("models", func() error {
		return pruneKind(ap, "model", ap.catalog.Models, func(m backend.ModelConfig) string { return m.Name },
			names(p.Models, func(f ClusterModel) string { return f.Name }),
			func(m backend.ModelConfig) error { return ap.tx.DeleteModel(ctx, m.Name) })
	})
	prune("backends", func() error {
		return pruneKind(ap, "backend", ap.catalog.Backends, func(b backend.Config) string { return b.Name },
			names(p.Backends, func(f ClusterBackend) string { return f.Name }),
			func(b backend.Config) error { return ap.tx.DeleteBackend(ctx, b.ID) })
	})
	prune("nodes", func() error {
		return pruneKind(ap, "node", ap.catalog.Nodes, func(n backend.Node) string { return n.Name },
			names(p.Nodes, func(f ClusterNode) string { return f.Name }),
			func(n backend.Node) error { return ap.tx.DeleteNode(ctx, n.ID) })
	})
	prune("groups", func() error {
		return pruneKind(ap, "group", ap.groups, func(g identity.Group) string { return g.Name },
			names(p.Groups, func(f ClusterGroup) string { return f.Name }),
			func(g identity.Group) error {
				err := ap.tx.DeleteGroup(ctx, g.ID)
				if errors.Is(err, ErrInUse) {
					members := slices.DeleteFunc(slices.Clone(users), func(u identity.User) bool { return u.GroupID != g.ID })
					return fmt.Errorf("%w: it has members (%d), and maybe service keys; name it in the file or move them first", err, len(members))
				}
				return err
			})
	})
	return errors.Join(errs...)
}

func names[F any](entries []F, name func(F) string) map[string]bool {
	out := map[string]bool{}
	for _, e := range entries {
		out[name(e)] = true
	}
	return out
}

func pruneKind[T any](ap *applier, kind string, have []T, name func(T) string, keep map[string]bool, remove func(T) error) error {
	var errs []error
	for _, e := range have {
		if keep[name(e)] {
			continue
		}
		if err := remove(e); err != nil {
			errs = append(errs, fmt.Errorf("delete %s %s: %w", kind, name(e), err))
			continue
		}
		ap.diff = append(ap.diff, Difference{Op: "-", Kind: kind, Name: name(e)})
	}
	return errors.Join(errs...)
}

// Export returns the configuration as a cluster file, secrets as references.
func (s *Service) Export(ctx context.Context, a Actor) ([]byte, error) {
	var c Cluster
	err := s.view(ctx, a, func(r Reader) error {
		catalog, err := r.Catalog(ctx)
		if err != nil {
			return err
		}
		groups, err := r.Groups(ctx)
		if err != nil {
			return err
		}
		users, err := r.Users(ctx)
		if err != nil {
			return err
		}
		c, err = export(catalog, groups, users)
		return err
	})
	if err != nil {
		return nil, err
	}
	return yaml.MarshalWithOptions(c, yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
}

func export(catalog backend.Catalog, groups []identity.Group, users []identity.User) (Cluster, error) {
	var c Cluster
	if !reflect.DeepEqual(catalog.Settings, backend.Settings{}) {
		c.Settings = clusterSettings(catalog.Settings)
	}
	groupName := map[identity.GroupID]string{}
	for _, g := range groups {
		groupName[g.ID] = g.Name
		c.Groups = append(c.Groups, clusterGroup(g))
	}
	for _, n := range catalog.Nodes {
		c.Nodes = append(c.Nodes, clusterNode(n))
	}
	for _, b := range catalog.Backends {
		f, err := clusterBackend(b)
		if err != nil {
			return c, err
		}
		c.Backends = append(c.Backends, f)
	}
	for _, m := range catalog.Models {
		f, err := clusterModel(m)
		if err != nil {
			return c, err
		}
		c.Models = append(c.Models, f)
	}
	for _, a := range catalog.Aliases {
		c.Aliases = append(c.Aliases, clusterAlias(a))
	}
	for _, u := range users {
		c.Users = append(c.Users, clusterUser(u, groupName))
	}
	return c, nil
}
