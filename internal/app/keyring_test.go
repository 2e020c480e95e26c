package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mindrouter/internal/secret"
)

func ringText(t *testing.T, cfg Config) string {
	t.Helper()
	text, err := os.ReadFile(cfg.SecretKeyFile())
	must(t, err)
	return string(text)
}

func TestWhatIsMadeIsForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes on Windows")
	}
	cfg := load(t)
	run(t, cfg, func(*Commands) error { return nil })
	for path, want := range map[string]os.FileMode{
		cfg.DataDir: 0o700, cfg.SecretKeyFile(): 0o600, filepath.Join(cfg.DataDir, "mindrouter.db"): 0o600,
	} {
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestTheKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	must(t, os.Mkdir(cfg.DataDir, 0o700))
	var wg sync.WaitGroup
	current := make([]string, 8)
	for i := range current { // servers and commands that start at once on a fresh directory
		wg.Go(func() {
			ring, err := openRing(cfg)
			if err != nil {
				t.Error(err)
				return
			}
			current[i] = ring.Current()
		})
	}
	wg.Wait()
	for _, id := range current {
		if id != current[0] {
			t.Fatalf("rings with different keys: %v", current)
		}
	}
	if files, err := os.ReadDir(cfg.DataDir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v; want the key alone", files, err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	cfg := patient(t) // its backend has a secret
	old := ringText(t, cfg)
	path, err := RotateSecretKey(cfg)
	if err != nil || path != cfg.SecretKeyFile() {
		t.Fatalf("rotated %s, %v", path, err)
	}
	fresh := ringText(t, cfg)
	if !strings.HasSuffix(fresh, old) || len(fresh) <= len(old) {
		t.Errorf("after the rotation the ring is not a new key before the old one")
	}
	info, err := os.Stat(path)
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the ring has mode %o", info.Mode().Perm())
	}
	before, err := secret.Parse(old)
	must(t, err)
	after, err := openRing(cfg)
	must(t, err)
	if before.Current() == after.Current() {
		t.Error("the current key is the old one")
	}
	if bad := broken(examine(t, cfg, nil)); len(bad) != 0 {
		t.Errorf("after the rotation %+v", bad)
	}
	files, err := filepath.Glob(filepath.Join(cfg.DataDir, ".secret-*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestRotationsAtOnceLoseNoKey(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	const rotations = 6
	var wg sync.WaitGroup
	for range rotations {
		wg.Go(func() {
			if _, err := RotateSecretKey(cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(strings.Fields(ringText(t, cfg))); n != rotations+1 {
		t.Errorf("the ring holds %d keys after %d rotations of one", n, rotations)
	}
}

func TestAKeyFromOutsideIsRotatedOutside(t *testing.T) {
	t.Parallel()
	cfg := load(t, "MINDROUTER_SECRET_KEY=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	if _, err := RotateSecretKey(cfg); err == nil || !strings.Contains(err.Error(), "set from outside") {
		t.Errorf("error %v", err)
	}
	run(t, cfg, func(*Commands) error { return nil })
	if _, err := os.Stat(cfg.SecretKeyFile()); err == nil {
		t.Error("a key was made although one is set")
	}
}

func TestADamagedRingIsNotReplaced(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	must(t, os.Mkdir(cfg.DataDir, 0o700))
	must(t, os.WriteFile(cfg.SecretKeyFile(), []byte("junk\n"), 0o600))
	if _, err := OpenCommands(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), cfg.SecretKeyFile()) {
		t.Errorf("error %v, want one that names the file", err)
	}
	if _, err := RotateSecretKey(cfg); err == nil {
		t.Error("a damaged ring was rotated")
	}
	if got := ringText(t, cfg); got != "junk\n" {
		t.Errorf("the ring is %q now", got)
	}
}
