// Command mindrouter is the gateway, its portal and its administration: one binary with everything in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"mindrouter/internal/app"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line.
type cli struct {
	app.Flags `group:"Settings"`

	Serve serveCmd `cmd:"" default:"withargs" help:"Run the gateway (the default)."`
	Demo  demoCmd  `cmd:"" help:"Run the gateway with simulated model servers, on this machine only."`

	Apply   applyCmd   `cmd:"" help:"Make the configuration as a cluster file says."`
	Export  exportCmd  `cmd:"" help:"Print the configuration as a cluster file, secrets as references."`
	User    userCmd    `cmd:"" help:"Accounts."`
	Key     keyCmd     `cmd:"" help:"API keys."`
	Backend backendCmd `cmd:"" help:"Model servers."`

	Migrate     migrateCmd     `cmd:"" help:"The database's schema."`
	Secret      secretCmd      `cmd:"" help:"The key ring."`
	Doctor      doctorCmd      `cmd:"" help:"Check everything that the service depends on; exit 1 if anything is broken."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask the running server whether it lives; for containers."`
	SimBackend  simBackendCmd  `cmd:"" help:"Run a simulated model server, for load tests and demonstrations."`
	Version     versionCmd     `cmd:"" help:"Print version, commit and Go version."`
}

// env is what a command gets beside its flags.
type env struct {
	flags   app.Flags
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }

// errUsage marks an error that the command line or a setting is to blame for.
var errUsage = errors.New("wrong usage")

func newParser(c *cli, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("mindrouter"),
		kong.Description("One door to the open-weight models on your own GPUs.\n\n"+
			"Exit codes: 0 done, 1 failed, 2 wrong usage. docs/commands.md is the reference of commands and settings."),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ValueFormatter(describe),
	)
	if err != nil {
		panic(err) // the command line is declared wrongly
	}
	return parser
}

// describe is the help of a flag, with the environment variable and the default of a setting.
func describe(v *kong.Value) string {
	path, fallback := v.Tag.Get("path"), v.Tag.Get("fallback")
	switch {
	case v.Name == "config":
		path = "config"
	case path == "":
		return kong.DefaultHelpValueFormatter(v)
	}
	help := v.Help
	if fallback != "" {
		help += " Default " + fallback + "."
	}
	return help + " ($" + app.Variable(path) + ")"
}

func run(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser := newParser(&c, stdout, stderr, func(code int) { exited = code })
	kctx, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "mindrouter: %v\nTry mindrouter --help.\n", err)
		return exitUsage
	}
	// The first signal stops in order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	kctx.BindTo(ctx, (*context.Context)(nil))
	err = kctx.Run(&env{flags: c.Flags, environ: environ, stdin: stdin, stdout: stdout, stderr: stderr})
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprintf(stderr, "mindrouter: %v\n", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "mindrouter: %v\n", err)
		return exitFailed
	}
}
