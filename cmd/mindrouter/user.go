package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"mindrouter/internal/app"
)

type userCmd struct {
	Create        userCreateCmd   `cmd:"" help:"Make an account."`
	List          userListCmd     `cmd:"" help:"List accounts."`
	Disable       userDisableCmd  `cmd:"" help:"Lock an account; its keys stop working within a second."`
	Enable        userEnableCmd   `cmd:"" help:"Unlock an account."`
	ResetPassword userPasswordCmd `cmd:"" help:"Set a new password, read from standard input or asked for."`
}

type userCreateCmd struct {
	Name          string `arg:"" help:"Name to sign in with."`
	Email         string `required:"" placeholder:"ADDRESS" help:"E-mail address."`
	Group         string `required:"" placeholder:"G" help:"Group that gives weight, limits and permissions."`
	Role          string `default:"user" enum:"user,auditor,helpdesk,key_manager,model_operator,admin" help:"user, auditor, helpdesk, key_manager, model_operator or admin."`
	PasswordStdin bool   `help:"Read a password from standard input. Without one the user cannot sign in locally."`
}

// Run implements the command.
func (c *userCreateCmd) Run(ctx context.Context, e *env) error {
	password := ""
	if c.PasswordStdin {
		var err error
		if password, err = e.readPassword(); err != nil {
			return err
		}
	}
	return e.with(ctx, func(cmd *app.Commands) error {
		return cmd.CreateUser(ctx, app.NewUser{
			Name: c.Name, Email: c.Email, Group: c.Group, Role: app.Role(c.Role), Password: password,
		})
	})
}

// Help implements kong.HelpProvider.
func (userCreateCmd) Help() string {
	return `Groups that every installation starts with: administrators, faculty, researchers, staff, students.

Examples:

  mindrouter user create alice --email alice@example.edu --group staff

  printf %s "$PASSWORD" | mindrouter user create root --email root@example.edu --group administrators --role admin --password-stdin`
}

// maxPassword bounds what is read of a password, in bytes.
const maxPassword = 4096

// readPassword reads one line; from a terminal without showing it.
func (e *env) readPassword() (string, error) {
	if f, ok := e.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		_, _ = fmt.Fprint(e.stderr, "Password: ") // nowhere else to say it
		password, err := term.ReadPassword(int(f.Fd()))
		_, _ = fmt.Fprintln(e.stderr)
		return string(password), err
	}
	line, err := bufio.NewReader(io.LimitReader(e.stdin, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read password: %w", err)
	}
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return "", fmt.Errorf("%w: there is no password on standard input", errUsage)
	}
	return password, nil
}

type userListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

type userLine struct {
	Name     string `json:"name"`
	Email    string `json:"email"`
	Group    string `json:"group"`
	Role     string `json:"role"`
	Disabled bool   `json:"disabled"`
	Created  string `json:"created"`
}

// Run implements the command.
func (c *userListCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error {
		users, err := cmd.Users(ctx)
		if err != nil {
			return err
		}
		lines, rows := []userLine{}, [][]string{}
		for _, u := range users {
			lines = append(lines, userLine{u.Name, u.Email, u.Group, string(u.Role), u.Disabled, stamp(u.CreatedAt)})
			state := "active"
			if u.Disabled {
				state = "disabled"
			}
			rows = append(rows, []string{u.Name, u.Email, u.Group, string(u.Role), state, day(u.CreatedAt)})
		}
		if c.JSON {
			return printJSON(e.stdout, lines)
		}
		return printTable(e.stdout, []string{"NAME", "EMAIL", "GROUP", "ROLE", "STATE", "CREATED"}, rows)
	})
}

type userDisableCmd struct {
	Name string `arg:"" help:"Name of the account."`
}

// Run implements the command.
func (c *userDisableCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error { return cmd.DisableUser(ctx, c.Name) })
}

type userEnableCmd struct {
	Name string `arg:"" help:"Name of the account."`
}

// Run implements the command.
func (c *userEnableCmd) Run(ctx context.Context, e *env) error {
	return e.with(ctx, func(cmd *app.Commands) error { return cmd.EnableUser(ctx, c.Name) })
}

type userPasswordCmd struct {
	Name string `arg:"" help:"Name of the account."`
}

// Run implements the command.
func (c *userPasswordCmd) Run(ctx context.Context, e *env) error {
	password, err := e.readPassword()
	if err != nil {
		return err
	}
	return e.with(ctx, func(cmd *app.Commands) error { return cmd.SetPassword(ctx, c.Name, password) })
}
