package store

import (
	"github.com/pressly/goose/v3/lock"
)

// newLocker returns the advisory lock that lets one server migrate while others wait.
func newLocker() (lock.SessionLocker, error) { return lock.NewPostgresSessionLocker() }
