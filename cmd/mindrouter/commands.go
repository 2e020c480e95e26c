package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"mindrouter/internal/app"
)

// config resolves the settings for a command.
func (e *env) config() (app.Config, *slog.Logger, error) {
	cfg, err := app.LoadConfig(e.flags, e.environ)
	if err != nil {
		return cfg, nil, fmt.Errorf("%w:\n%w", errUsage, err)
	}
	if cfg.LogLevel < slog.LevelWarn {
		cfg.LogLevel = slog.LevelWarn // a command speaks on standard output; only trouble goes to the log
	}
	return cfg, app.NewLogger(cfg, e.stderr), nil
}

// with opens the database for a command and closes it afterwards.
func (e *env) with(ctx context.Context, do func(*app.Commands) error) error {
	cfg, log, err := e.config()
	if err != nil {
		return err
	}
	c, err := app.OpenCommands(ctx, cfg, log)
	if err != nil {
		return err
	}
	err = errors.Join(do(c), c.Close())
	var field *app.FieldError
	if errors.As(err, &field) && field.Err == nil { // the value could never be right
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

// lookup is the value of an environment variable; empty if it is not set.
func (e *env) lookup(name string) string {
	for _, kv := range e.environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
