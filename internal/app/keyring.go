package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"mindrouter/internal/secret"
)

// openRing returns the key ring: the one that is set, or the one in the data directory, which is made on first use.
func openRing(cfg Config) (*secret.Ring, error) {
	if cfg.SecretKey != "" {
		ring, err := secret.Parse(cfg.SecretKey)
		if err != nil {
			return nil, fmt.Errorf("secret_key: %w", err)
		}
		return ring, nil
	}
	path := cfg.SecretKeyFile()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = createKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("secret key: %w", err)
	}
	ring, err := secret.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// createKey makes a key file that only its owner can read. If another process made one first, that one counts.
func createKey(path string) ([]byte, error) {
	key, err := secret.Generate()
	if err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // the link below is the file that stays
	_, err = tmp.WriteString(key + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// RotateSecretKey puts a fresh key in front of the ring in the data directory, whose file it returns. Older keys stay and
// go on opening what they sealed.
func RotateSecretKey(cfg Config) (path string, err error) {
	path = cfg.SecretKeyFile()
	if cfg.SecretKey != "" {
		return path, errors.New("the secret key is set from outside: put a new key in front of it there, and keep the old ones after a comma")
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return path, fmt.Errorf("data directory: %w", err)
	}
	// Of two rotations at once, the second keeps the key of the first.
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return path, fmt.Errorf("lock %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := openRing(cfg); err != nil {
		return path, err
	}
	return path, prependKey(path)
}

func prependKey(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	key, err := secret.Generate()
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(key + "\n" + string(old))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return os.Rename(tmp.Name(), path)
}
