package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mindrouter/internal/app"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make an API key and print it, once."`
	List   keyListCmd   `cmd:"" help:"List keys by their prefixes."`
	Revoke keyRevokeCmd `cmd:"" help:"End a key, within a second, for ever."`
}

type keyCreateCmd struct {
	User           string   `required:"" placeholder:"NAME" help:"Owner; of a service key its maintainer."`
	Name           string   `required:"" placeholder:"LABEL" help:"What the key is for."`
	Expires        string   `placeholder:"90d" help:"Life of the key, such as 90d or 12h, or never. By default the group decides."`
	Scopes         []string `default:"inference" placeholder:"inference,admin" help:"inference, admin, or both."`
	Models         []string `placeholder:"A,B" help:"Models and aliases that the key may use; by default those of the group."`
	RPM            int      `name:"rpm" placeholder:"N" help:"Requests per minute; 0 is no limit of its own."`
	TPM            int      `name:"tpm" placeholder:"N" help:"Tokens per minute; 0 is no limit of its own."`
	Budget         int64    `placeholder:"TOKENS" help:"Tokens per budget period of the group; 0 is no limit of its own."`
	MaxConcurrent  int      `placeholder:"N" help:"Requests in flight; more wait in the queue. 0 is no limit of its own."`
	Class          string   `enum:",interactive,standard,batch" default:"" placeholder:"CLASS" help:"interactive, standard (the default) or batch."`
	Boundary       string   `enum:",any,campus" default:"" placeholder:"BOUNDARY" help:"any (the default) or campus."`
	ReasoningField string   `enum:",reasoning_content,reasoning,both" default:"" placeholder:"FIELD" help:"Where thinking appears on the OpenAI surface: reasoning_content (the default), reasoning or both."`
	Service        bool     `help:"Make a service key, which belongs to a group."`
	Group          string   `placeholder:"G" help:"Group of a service key."`
	Strategy       string   `placeholder:"S" help:"Alias strategy of a service key, instead of each alias's own."`
}

// Help implements kong.HelpProvider.
func (keyCreateCmd) Help() string {
	return `The key is printed alone and kept nowhere: only its first characters, by which it is listed and revoked. Limits narrow
those of the user and the group. --class orders the requests of one user among themselves and changes no share.

Examples:

  KEY=$(mindrouter key create --user alice --name laptop)

  mindrouter key create --user alice --name ci --expires 30d --models default,small --rpm 60

  mindrouter key create --service --group staff --user alice --name helpdesk-bot --expires never`
}

// Run implements the command. It prints the key alone.
func (c *keyCreateCmd) Run(ctx context.Context, e *env) error {
	expires, err := parseLife(c.Expires)
	if err != nil {
		return err
	}
	if c.Models != nil && strings.Join(c.Models, "") == "" {
		return fmt.Errorf("%w: --models is empty; leave it out for all models of the group", errUsage)
	}
	n := app.NewKey{
		User: c.User, Label: c.Name, Expires: expires, Models: c.Models,
		Limits: app.Limits{RequestsPerMinute: c.RPM, TokensPerMinute: c.TPM, TokenBudget: c.Budget, MaxConcurrent: c.MaxConcurrent},
		Class:  app.Class(c.Class), Boundary: app.Boundary(c.Boundary), ReasoningField: c.ReasoningField,
		Service: c.Service, Group: c.Group, Strategy: c.Strategy,
	}
	for _, s := range c.Scopes {
		n.Scopes = append(n.Scopes, app.Scope(s))
	}
	return e.with(ctx, func(cmd *app.Commands) error {
		secret, err := cmd.CreateKey(ctx, n)
		if err != nil {
			return err
		}
		unknown, err := cmd.UnknownModels(ctx, c.Models)
		if err == nil && len(unknown) > 0 {
			_, err = fmt.Fprintf(e.stderr, "warning: the key may use %s, which no entry of the configuration names; model servers may have them\n", strings.Join(unknown, ", "))
		}
		if _, printed := fmt.Fprintln(e.stdout, secret); err == nil {
			err = printed
		}
		return err
	})
}

// parseLife reads a duration with days: 90d, 12h, never.
func parseLife(s string) (time.Duration, error) {
	switch {
	case s == "":
		return 0, nil
	case s == "never":
		return -1, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%w: --expires %q: want a life such as 90d or 12h, or never", errUsage, s)
}

type keyListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

type keyLine struct {
	Prefix  string   `json:"prefix"`
	Name    string   `json:"name"`
	User    string   `json:"user"`
	Service bool     `json:"service"`
	Group   string   `json:"group,omitempty"`
	Scopes  []string `json:"scopes"`
	State   string   `json:"state"`
	Expires string   `json:"expires,omitempty"`
	Created string   `json:"created"`

	Models        []string `json:"models,omitempty"` // absent: all of the group
	Class         string   `json:"class,omitempty"`
	Boundary      string   `json:"boundary,omitempty"`
	RPM           int      `json:"requests_per_minute,omitempty"`
	TPM           int      `json:"tokens_per_minute,omitempty"`
	Budget        int64    `json:"token_budget,omitempty"`
	MaxConcurrent int      `json:"max_concurrent,omitempty"`
}

// Run implements the command.
func (c *keyListCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error {
		keys, err := cmd.Keys(ctx)
		if err != nil {
			return err
		}
		lines, rows := []keyLine{}, [][]string{}
		for _, k := range keys {
			l := keyLine{
				Prefix: "mr2_" + k.Prefix, Name: k.Label, User: k.User, Service: k.Service, Group: k.Group,
				State: keyState(k, time.Now()), Expires: stamp(k.ExpiresAt), Created: stamp(k.CreatedAt),
				Models: k.Models, Class: string(k.Class), Boundary: string(k.Boundary),
				RPM: k.Limits.RequestsPerMinute, TPM: k.Limits.TokensPerMinute, Budget: k.Limits.TokenBudget, MaxConcurrent: k.Limits.MaxConcurrent,
			}
			for _, s := range k.Scopes {
				l.Scopes = append(l.Scopes, string(s))
			}
			lines = append(lines, l)
			rows = append(rows, []string{l.Prefix, l.Name, l.User, strings.Join(l.Scopes, ","), l.State, day(k.ExpiresAt), day(k.CreatedAt)})
		}
		if c.JSON {
			return printJSON(e.stdout, lines)
		}
		return printTable(e.stdout, []string{"PREFIX", "NAME", "USER", "SCOPES", "STATE", "EXPIRES", "CREATED"}, rows)
	})
}

func keyState(k app.KeyInfo, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case k.Disabled:
		return "disabled"
	case !k.Live(now):
		return "expired"
	default:
		return "active"
	}
}

type keyRevokeCmd struct {
	Prefix string `arg:"" help:"The key's first characters, as key list shows them, or the whole key."`
}

// Run implements the command.
func (c *keyRevokeCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error { return cmd.RevokeKey(ctx, c.Prefix) })
}
