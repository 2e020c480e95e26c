package app

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mindrouter/internal/admin"
	"mindrouter/internal/identity"
	"mindrouter/internal/simbackend"
	"mindrouter/internal/simbackend/timing"
	"mindrouter/internal/store"
)

// demoUsers are the accounts of a demonstration.
var demoUsers = []struct {
	name, group string
	role        identity.Role
}{
	{"demo-admin", "administrators", identity.RoleAdmin},
	{"demo-staff", "staff", identity.RoleUser},
	{"demo-student", "students", identity.RoleUser},
}

// ErrNotDemo says that a database holds something else than a demonstration.
var ErrNotDemo = errors.New("this database is not a demonstration's; the demo does not touch it")

// Demo serves a demonstration until ctx ends: simulated model servers, three accounts and a key. It listens on loopback
// only and keeps to a database of its own. What a newcomer needs is written to out.
func Demo(ctx context.Context, cfg Config, log *slog.Logger, out io.Writer) (err error) {
	if local, err := loopback(cfg.Addr); err != nil || !local {
		return errors.Join(fmt.Errorf("the demo serves this machine only: %s is not a loopback address", cfg.Addr), err)
	}
	ordinary := "sqlite:" + filepath.Join(cfg.DataDir, "mindrouter.db")
	own := "sqlite:" + filepath.Join(cfg.DataDir, "demo.db")
	if cfg.DatabaseURL == ordinary {
		cfg.DatabaseURL = own
	}
	if kind, err := store.KindOf(cfg.DatabaseURL); err != nil || kind != store.SQLite {
		return errors.Join(ErrNotDemo, err)
	}
	cfg.Simulated = true

	unlock, err := lockServer(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := checkDemo(ctx, cfg, log, cfg.DatabaseURL == own); err != nil {
		return err
	}
	sims, err := startSimulations()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sims.shutdown()) }()
	db, err := openDatabase(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	d, err := prepareDemo(ctx, db, sims)
	if err != nil {
		return err
	}
	s, err := newServer(ctx, cfg, db, log)
	if err != nil {
		return err
	}
	return s.run(ctx, func(r Ready) {
		select { // what is printed works at once
		case <-s.fleet.Ready():
		case <-ctx.Done():
		}
		d.print(out, r.URL)
	})
}

// checkDemo refuses a database that holds something else than a demonstration, before anything in it is changed. One that
// is not there yet is fine, and so is the demonstration's own file if a first start was broken off.
func checkDemo(ctx context.Context, cfg Config, log *slog.Logger, own bool) (err error) {
	path := store.SQLitePath(cfg.DatabaseURL)
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size() == 0) {
		return nil
	}
	db, err := connect(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	steps, err := db.Migrations(ctx)
	if err != nil {
		return err
	}
	if own && !steps[0].Applied {
		return nil
	}
	foreign := fmt.Errorf("%s: %w", path, ErrNotDemo)
	if !steps[0].Applied {
		return foreign
	}
	users, err := newAdmin(db).Users(ctx, admin.Operator("demo"))
	if err != nil {
		return errors.Join(foreign, err)
	}
	if !slices.ContainsFunc(users, func(u admin.UserInfo) bool { return u.Name == demoUsers[0].name }) && (!own || len(users) > 0) {
		return foreign
	}
	return nil
}

// simulations are the model servers of a demonstration.
type simulations struct{ vllm, ollama *simbackend.Running }

func startSimulations() (*simulations, error) {
	vllm, err := simbackend.Start(simbackend.Config{
		Dialect: simbackend.DialectVLLM, TimeScale: 1, Seed: 1, RecordLimit: -1, Timing: timing.Model{DecodeTPS: 60},
	}, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ollama, err := simbackend.Start(simbackend.Config{
		Dialect: simbackend.DialectOllama, TimeScale: 1, Seed: 1, RecordLimit: -1, Timing: timing.Model{DecodeTPS: 40},
	}, "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, vllm.Shutdown())
	}
	return &simulations{vllm: vllm, ollama: ollama}, nil
}

func (s *simulations) shutdown() error { return errors.Join(s.vllm.Shutdown(), s.ollama.Shutdown()) }

// demo is what a newcomer is told.
type demo struct {
	signIns []string // user and password
	key     string
}

// prepareDemo fills a fresh database, or brings an old demonstration's up to date: the simulated servers have new ports,
// the accounts new passwords, and there is a new key.
func prepareDemo(ctx context.Context, db *database, sims *simulations) (demo, error) {
	var d demo
	svc := newAdmin(db)
	actor := admin.Operator("demo")
	users, err := svc.Users(ctx, actor)
	if err != nil {
		return d, err
	}
	known := map[string]bool{}
	for _, u := range users {
		known[u.Name] = true
	}
	cluster, err := admin.ParseCluster("demo", fmt.Appendf(nil, demoCluster, sims.vllm.URL, sims.ollama.URL))
	if err != nil {
		return d, err
	}
	if _, err := svc.Apply(ctx, actor, cluster, admin.ApplyOptions{}); err != nil {
		return d, err
	}
	for _, u := range demoUsers {
		password, err := demoPassword()
		if err != nil {
			return d, err
		}
		if known[u.name] {
			err = svc.SetPassword(ctx, actor, u.name, password)
		} else {
			_, err = svc.CreateUser(ctx, actor, admin.NewUser{
				Name: u.name, Email: u.name + "@example.edu", Group: u.group, Role: u.role, Password: password,
			})
		}
		if err != nil {
			return d, err
		}
		d.signIns = append(d.signIns, u.name+" "+password)
	}
	d.key, err = demoKey(ctx, svc, actor)
	return d, err
}

const demoCluster = `
backends:
  - {name: sim-vllm, engine: vllm, url: %s, max_concurrent: 16}
  - {name: sim-ollama, engine: ollama, url: %s, max_concurrent: 8}
models:
  - {name: sim-chat, label: "Simulated assistant", capabilities: [chat, completion, tools, json_schema, vision]}
  - {name: sim-think, label: "Simulated thinker", capabilities: [chat, completion, tools, json_schema, thinking], thinking: {profile: toggle}}
aliases:
  - {name: default, targets: [sim-chat, sim-llama]}
`

const demoKeyLabel = "demonstration"

// demoKey ends the key of the last demonstration, which nobody can read any more, and makes one.
func demoKey(ctx context.Context, svc *admin.Service, actor admin.Actor) (string, error) {
	keys, err := svc.Keys(ctx, actor)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		if k.Label == demoKeyLabel && k.RevokedAt.IsZero() {
			if err := svc.RevokeKey(ctx, actor, k.Prefix); err != nil {
				return "", err
			}
		}
	}
	secret, _, err := svc.CreateKey(ctx, actor, admin.NewKey{
		User: demoUsers[0].name, Label: demoKeyLabel, Scopes: []identity.Scope{identity.ScopeInference, identity.ScopeAdmin},
	})
	return secret, err
}

func demoPassword() (string, error) {
	raw := make([]byte, 10)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)), nil
}

func (d demo) print(out io.Writer, url string) {
	var b strings.Builder
	fmt.Fprintf(&b, "The model servers, their answers and these accounts are simulated.\n")
	fmt.Fprintf(&b, "url: %s\n", url)
	for _, s := range d.signIns {
		fmt.Fprintf(&b, "sign-in: %s\n", s)
	}
	fmt.Fprintf(&b, "key: %s\n", d.key)
	fmt.Fprintf(&b, "curl: curl -N %s/v1/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' "+
		`-d '{"model":"sim-chat","stream":true,"messages":[{"role":"user","content":"What are you?"}]}'`+"\n", url, d.key)
	_, _ = io.WriteString(out, b.String()) // nowhere else to say it
}
