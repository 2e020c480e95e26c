package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// later lists the keys that are kept but have no effect in this version, by their paths without indexes, and says what
// comes instead. Whoever gives one a meaning takes it off this list.
var later = map[string]string{
	"settings.routing.mode": "placement goes by points in this version",
	"aliases[].fallback_on": "in this version the next target is tried when one is unavailable and when the prompt does not fit it",

	"settings.energy":     noTelemetry,
	"nodes[].sidecar_url": noTelemetry,
	"backends[].node":     noTelemetry,
	"backends[].gpus":     noTelemetry,
	"models[].price":      "in this version it orders the targets of aliases with the strategy cheapest and nothing else",

	"backends[].requests_per_minute":          noRates,
	"backends[].tokens_per_minute":            noRates,
	"backends[].models[].requests_per_minute": noRates,
	"backends[].models[].tokens_per_minute":   noRates,

	"backends[].models[].parameters": "parameters are passed on as they are in this version",
	"models[].parameters":            "parameters are passed on as they are in this version",
}

const (
	noTelemetry = "GPUs and energy are not measured in this version"
	noRates     = "backends have no rates of their own in this version; max_concurrent bounds them"
)

// Warnings tells of keys in the file that are kept and take effect in a later version: one line for each kind, with the
// place where it appears first.
func (p *ParsedCluster) Warnings() []string {
	found := map[string][]string{} // paths in the file, by the key of later
	for path, at := range p.shape.places {
		kind := withoutIndexes(path)
		if kind == "settings.routing.mode" && p.Settings.Routing.Mode == "points" {
			continue
		}
		if _, ok := later[kind]; ok && !at.empty {
			found[kind] = append(found[kind], path)
		}
	}
	var first []located
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		paths := found[kind]
		slices.SortFunc(paths, func(a, b string) int { return p.shape.at(a) - p.shape.at(b) })
		text := "is kept and has no effect yet: " + later[kind]
		if n := len(paths) - 1; n > 0 {
			text += fmt.Sprintf(" (and %d more like it)", n)
		}
		first = append(first, located{p.shape.at(paths[0]), paths[0], text})
	}
	inOrder(first)
	var out []string
	for _, w := range first {
		out = append(out, p.format(w))
	}
	return out
}

// withoutIndexes is a path for all entries of its lists.
func withoutIndexes(path string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("[]")
		_, path, _ = strings.Cut(rest, "]")
	}
}
