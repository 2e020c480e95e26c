package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"mindrouter/internal/app"
)

type userCmd struct {
	Create        userCreateCmd   `cmd:"" help:"Make an account."`
	List          userListCmd     `cmd:"" help:"List accounts."`
	Disable       userDisableCmd  `cmd:"" help:"Lock an account; its keys stop working within a second."`
	Enable        userEnableCmd   `cmd:"" help:"Unlock an account."`
	ResetPassword userPasswordCmd `cmd:"" help:"Set a new password, read from standard input."`
}

type userCreateCmd struct {
	Name          string `arg:"" help:"Name to sign in with."`
	Email         string `required:"" help:"E-mail address."`
	Group         string `required:"" help:"Group that gives weight, limits and permissions."`
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

// readPassword reads one line.
func (e *env) readPassword() (string, error) {
	line, err := bufio.NewReader(e.stdin).ReadString('\n')
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return "", fmt.Errorf("%w: no password on standard input: %w", errUsage, errors.Join(err))
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
