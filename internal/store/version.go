package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"
)

// notifyChannel is where PostgreSQL announces a new catalog version.
const notifyChannel = "mindrouter_catalog"

type versionRow struct {
	ID      int `gorm:"primaryKey"`
	Version uint64
}

func (versionRow) TableName() string { return "catalog_state" }

func readVersion(db *gorm.DB) (uint64, error) {
	var row versionRow
	if err := db.Where("id = 1").Take(&row).Error; err != nil {
		return 0, fmt.Errorf("read catalog version: %w", err)
	}
	return row.Version, nil
}

func (s *Store) raiseVersion(db *gorm.DB) error {
	if err := db.Exec("UPDATE catalog_state SET version = version + 1 WHERE id = 1").Error; err != nil {
		return fmt.Errorf("raise catalog version: %w", err)
	}
	if s.Kind() == Postgres { // sent by the commit
		return db.Exec("SELECT pg_notify(?, '')", notifyChannel).Error
	}
	return nil
}

// CatalogVersion returns a number that grows with every committed change of configuration.
func (s *Store) CatalogVersion(ctx context.Context) (uint64, error) {
	return readVersion(s.read.WithContext(ctx))
}

// pollEvery is how often SQLite is asked for a new version, and how long Watch pauses after PostgreSQL was lost.
const pollEvery = 500 * time.Millisecond

// distrust is how long PostgreSQL may be silent before it is asked all the same: a pooler or a connection that is dead
// without knowing it swallows notifications.
const distrust = 2 * time.Second

// Watch calls changed with the version that it finds, because the configuration may have changed since the caller read
// it, and then with the new version whenever the configuration has changed, by whatever process, until ctx ends. A failure
// to read is logged and tried again, as is a call of changed that returns an error: while the database is away nothing changes.
func (s *Store) Watch(ctx context.Context, changed func(version uint64) error) error {
	var last uint64 // versions begin at 1
	tell := func() error {
		v, err := s.CatalogVersion(ctx)
		if err == nil && v != last {
			if err = changed(v); err == nil {
				last = v
			}
		}
		return err
	}
	down := false
	for ctx.Err() == nil {
		err := tell()
		if err == nil && s.Kind() == Postgres {
			err = s.listen(ctx, tell)
		}
		if failed := err != nil && ctx.Err() == nil; failed != down {
			down = failed
			s.log.Warn("watching the configuration", slog.Any("failing", failed), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// listen tells of every notification until the connection or ctx ends.
func (s *Store) listen(ctx context.Context, tell func() error) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is being abandoned anyway
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+notifyChannel); err != nil {
		return err
	}
	for {
		if err := tell(); err != nil { // also what changed before LISTEN
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, distrust)
		_, err := conn.WaitForNotification(waiting)
		silent := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !silent:
			return err
		}
	}
}

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	query := "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
	if s.Kind() == SQLite {
		return time.Now(), nil // it runs in this process
	}
	var us int64
	err := s.read.WithContext(ctx).Raw(query).Scan(&us).Error
	return fromMicros(us), err
}
