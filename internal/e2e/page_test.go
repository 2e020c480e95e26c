package e2e_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"mindrouter/internal/e2e"
	"mindrouter/internal/e2e/testenv"
	"mindrouter/internal/simbackend"
)

//go:embed testdata/axe/axe.min.js
var axe string

// browser opens a tab in real Chromium and gathers what the page complains about.
type browser struct {
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it

	mu         sync.Mutex
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(testenv.Chromium(t)), chromedp.NoSandbox,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true), chromedp.UserDataDir(t.TempDir()))
	alloc, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*e2e.Deadline)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.complain("exception: " + ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
				b.complain(fmt.Sprintf("console %s: %s", ev.Type, ev.Args[0].Value))
			}
		case *log.EventEntryAdded: // CSP violations and failed loads come here
			b.complain(fmt.Sprintf("%s: %s", ev.Entry.Level, ev.Entry.Text))
		}
	})
	return b
}

func (b *browser) complain(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, s)
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// open loads a page in a theme at a width.
func (b *browser) open(t *testing.T, url, theme string, width int64) {
	t.Helper()
	b.run(t,
		emulation.SetDeviceMetricsOverride(width, 900, 1, width < 640),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.Navigate(url), chromedp.WaitReady("main"))
}

// check demands that the page is accessible, does not scroll sideways, and complains about nothing.
func (b *browser) check(t *testing.T, what string) {
	t.Helper()
	var result string
	var overflow bool
	b.run(t,
		chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &overflow),
		// The policy forbids script of others; the debugger may still add one.
		chromedp.Evaluate(axe+";0", nil),
		chromedp.Evaluate(`axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html)])))`,
			&result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if overflow {
		t.Errorf("%s scrolls sideways", what)
	}
	var violations []any
	if err := json.Unmarshal([]byte(result), &violations); err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%s: axe: %v", what, v)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		t.Errorf("%s: %s", what, c)
	}
	b.complaints = nil
}

// shot keeps a picture of the page where MINDROUTER_TEST_SHOTS says.
func (b *browser) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("MINDROUTER_TEST_SHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.run(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		return err
	}))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStartPage(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	b := newBrowser(t)
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 360} {
			name := fmt.Sprintf("start-%d-%s", width, theme)
			b.open(t, s.URL+"/", theme, width)
			var text, background string
			b.run(t, chromedp.Text("main", &text), chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &background))
			for _, want := range []string{"All model servers answer", s.URL + "/v1", "mindrouter key create"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%s", name, want, text)
				}
			}
			if dark := background != "rgb(251, 251, 250)"; dark != (theme == "dark") {
				t.Errorf("%s has the background %s", name, background)
			}
			b.check(t, name)
			b.shot(t, name)
		}
	}
	// The theme button changes the theme and is remembered.
	var before, after, remembered string
	const current = `getComputedStyle(document.body).backgroundColor`
	b.run(t, chromedp.Evaluate(current, &before), chromedp.Click("[data-theme-toggle]"), chromedp.Evaluate(current, &after),
		chromedp.Reload(), chromedp.WaitReady("main"), chromedp.Evaluate(current, &remembered))
	if before == after || remembered != after {
		t.Errorf("theme button: %s, then %s, after a reload %s", before, after, remembered)
	}
	b.open(t, s.URL+"/no/such/page", "light", 1280)
	b.mu.Lock()
	b.complaints = nil // the browser logs the 404 itself
	b.mu.Unlock()
	b.check(t, "not found")
	b.shot(t, "not-found")
}

func TestDocsPage(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{
		Backends: map[string]simbackend.Config{"sim": {Dialect: simbackend.DialectVLLM, Models: models(t)}},
	})
	b := newBrowser(t)
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 360} {
			name := fmt.Sprintf("docs-%d-%s", width, theme)
			b.open(t, s.URL+"/docs", theme, width)
			var text string
			b.run(t, chromedp.Text("main", &text))
			for _, want := range []string{s.URL + "/v1", s.URL + "/anthropic", "/v1/chat/completions", "/api/chat", "X-Mindrouter-Strict"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%s", name, want, text)
				}
			}
			b.check(t, name)
			b.shot(t, name)
		}
	}
	got := s.Do("GET", "/openapi.json", "", "")
	var doc struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal([]byte(got.Body), &doc); err != nil || doc.OpenAPI != "3.1.0" || doc.Paths["/v1/chat/completions"] == nil {
		t.Errorf("/openapi.json: %d %v %s", got.Status, err, got.Body[:min(len(got.Body), 200)])
	}
}
