package main

import (
	"context"

	"mindrouter/internal/app"
)

type healthcheckCmd struct{}

// Run implements the command.
func (c *healthcheckCmd) Run(ctx context.Context, e *env) error {
	cfg, _, err := e.config()
	if err != nil {
		return err
	}
	return app.Healthcheck(ctx, cfg)
}
