package app

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// NewLogger returns the log of the process: JSON, or text on a terminal, unless the configuration says otherwise.
func NewLogger(cfg Config, w io.Writer) *slog.Logger {
	format := cfg.LogFormat
	if format == "" {
		format = "json"
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	}
	opts := &slog.HandlerOptions{Level: cfg.LogLevel}
	var h slog.Handler = slog.NewJSONHandler(w, opts)
	if format == "text" {
		h = slog.NewTextHandler(w, opts)
	}
	log := slog.New(h)
	for _, warning := range cfg.Warnings {
		log.Warn("setting", slog.String("problem", warning))
	}
	return log
}
