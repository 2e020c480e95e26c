package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"mindrouter/internal/admin"
	"mindrouter/internal/backend"
	"mindrouter/internal/identity"
	"mindrouter/internal/routing"
)

// View implements admin.Store.
func (s *Store) View(ctx context.Context, fn func(admin.Reader) error) error {
	return s.snapshot(ctx, func(db *gorm.DB) error { return fn(&configTx{s: s, db: db}) })
}

// InTx implements admin.Store. The version is raised first: its row is the lock that lets one change of configuration
// follow another on PostgreSQL, so that fn may decide by what it reads.
func (s *Store) InTx(ctx context.Context, fn func(admin.Tx) error) error {
	return s.inTx(ctx, func(db *gorm.DB) error {
		if err := s.raiseVersion(db); err != nil {
			return err
		}
		return fn(&configTx{s: s, db: db})
	})
}

// configTx reads and writes configuration in one transaction.
type configTx struct {
	s  *Store
	db *gorm.DB
}

// one reads a single row of type R by a condition and converts it.
func one[R any, T any](db *gorm.DB, convert func(R) (T, error), where string, args ...any) (T, error) {
	var row R
	var zero T
	err := db.Where(where, args...).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return zero, identity.ErrNotFound
	}
	if err != nil {
		return zero, err
	}
	return convert(row)
}

// many reads all rows that db selects and converts them.
func many[R any, T any](db *gorm.DB, convert func(R) (T, error)) ([]T, error) {
	var rows []R
	if err := db.Find(&rows).Error; err != nil {
		return nil, err
	}
	out := make([]T, 0, len(rows))
	for _, r := range rows {
		v, err := convert(r)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// save inserts row or replaces all its columns.
func save(db *gorm.DB, row any) error {
	err := db.Clauses(clause.OnConflict{Columns: primaryKey(row), UpdateAll: true}).Create(row).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return identity.ErrExists
	}
	return err
}

func primaryKey(row any) []clause.Column {
	if _, ok := row.(*namedRow); ok {
		return []clause.Column{{Name: "name"}}
	}
	return []clause.Column{{Name: "id"}}
}

// remove deletes the rows of a table that where names.
func remove(db *gorm.DB, row any, where string, args ...any) error {
	res := db.Where(where, args...).Delete(row)
	switch {
	case errors.Is(res.Error, gorm.ErrForeignKeyViolated):
		return admin.ErrInUse
	case res.Error != nil:
		return res.Error
	case res.RowsAffected == 0:
		return identity.ErrNotFound
	}
	return nil
}

func (t *configTx) with(ctx context.Context) *gorm.DB { return t.db.WithContext(ctx) }

// Groups implements admin.Reader.
func (t *configTx) Groups(ctx context.Context) ([]identity.Group, error) {
	return many(t.with(ctx).Order("name"), groupRow.group)
}

// GroupByName implements admin.Reader.
func (t *configTx) GroupByName(ctx context.Context, name string) (identity.Group, error) {
	return one(t.with(ctx), groupRow.group, "name = ?", name)
}

// SaveGroup implements admin.Tx.
func (t *configTx) SaveGroup(ctx context.Context, g identity.Group) error {
	row := toGroupRow(g)
	return save(t.with(ctx), &row)
}

// DeleteGroup implements admin.Tx.
func (t *configTx) DeleteGroup(ctx context.Context, id identity.GroupID) error {
	var n int64
	if err := t.with(ctx).Model(&keyRow{}).Where("group_id = ?", string(id)).Count(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return admin.ErrInUse
	}
	if err := t.with(ctx).Model(&userRow{}).Where("group_id = ?", string(id)).Count(&n).Error; err != nil {
		return err
	}
	if n > 0 {
		return admin.ErrInUse
	}
	return remove(t.with(ctx), &groupRow{}, "id = ?", string(id))
}

// Users implements admin.Reader.
func (t *configTx) Users(ctx context.Context) ([]identity.User, error) {
	return many(t.with(ctx).Order("name"), userRow.user)
}

// UserByName implements admin.Reader.
func (t *configTx) UserByName(ctx context.Context, name string) (identity.User, error) {
	return one(t.with(ctx), userRow.user, "name = ?", name)
}

// SaveUser implements admin.Tx.
func (t *configTx) SaveUser(ctx context.Context, u identity.User) error {
	row := toUserRow(u)
	return save(t.with(ctx), &row)
}

// Keys implements admin.Reader.
func (t *configTx) Keys(ctx context.Context, user identity.UserID) ([]identity.Key, error) {
	db := t.with(ctx).Order("created_at DESC, id DESC")
	if user != "" {
		db = db.Where("user_id = ?", string(user))
	}
	return many(db, keyRow.key)
}

// KeysByPrefix implements admin.Reader.
func (t *configTx) KeysByPrefix(ctx context.Context, prefix string) ([]identity.Key, error) {
	return many(t.with(ctx).Where("prefix = ?", prefix), keyRow.key)
}

// SaveKey implements admin.Tx.
func (t *configTx) SaveKey(ctx context.Context, k identity.Key) error {
	row := toKeyRow(k)
	return save(t.with(ctx), &row)
}

// Catalog implements admin.Reader.
func (t *configTx) Catalog(ctx context.Context) (backend.Catalog, error) {
	var c backend.Catalog
	var err error
	if c.Version, err = readVersion(t.with(ctx)); err != nil {
		return c, err
	}
	if c.Nodes, err = many(t.with(ctx).Order("name"), t.s.node); err != nil {
		return c, err
	}
	if c.Backends, err = many(t.with(ctx).Order("name"), t.s.backend); err != nil {
		return c, err
	}
	if c.Models, err = many(t.with(ctx).Table("models").Order("name"), namedRow.model); err != nil {
		return c, err
	}
	if c.Aliases, err = many(t.with(ctx).Table("aliases").Order("name"), fromNamed[routing.Alias]); err != nil {
		return c, err
	}
	c.Settings, err = one(t.with(ctx), func(r settingsRow) (backend.Settings, error) {
		return fromJSON[backend.Settings](r.Config)
	}, "id = 1")
	if errors.Is(err, identity.ErrNotFound) {
		err = nil
	}
	return c, err
}

func fromNamed[T any](r namedRow) (T, error) { return fromJSON[T](r.Config) }

// SaveNode implements admin.Tx.
func (t *configTx) SaveNode(ctx context.Context, n backend.Node) error {
	row, err := t.s.toNodeRow(n)
	if err != nil {
		return err
	}
	return save(t.with(ctx), &row)
}

// DeleteNode implements admin.Tx.
func (t *configTx) DeleteNode(ctx context.Context, id string) error {
	return remove(t.with(ctx), &nodeRow{}, "id = ?", id)
}

// SaveBackend implements admin.Tx.
func (t *configTx) SaveBackend(ctx context.Context, b backend.Config) error {
	row, err := t.s.toBackendRow(b)
	if err != nil {
		return err
	}
	return save(t.with(ctx), &row)
}

// DeleteBackend implements admin.Tx.
func (t *configTx) DeleteBackend(ctx context.Context, id string) error {
	return remove(t.with(ctx), &backendRow{}, "id = ?", id)
}

func (t *configTx) saveNamed(ctx context.Context, table, name string, config any, created time.Time) error {
	return save(t.with(ctx).Table(table), &namedRow{Name: name, Config: toJSON(config), CreatedAt: micros(created)})
}

// SaveModel implements admin.Tx.
func (t *configTx) SaveModel(ctx context.Context, m backend.ModelConfig) error {
	return t.saveNamed(ctx, "models", m.Name, m, m.CreatedAt)
}

// DeleteModel implements admin.Tx.
func (t *configTx) DeleteModel(ctx context.Context, name string) error {
	return remove(t.with(ctx).Table("models"), &namedRow{}, "name = ?", name)
}

// SaveAlias implements admin.Tx.
func (t *configTx) SaveAlias(ctx context.Context, a routing.Alias) error {
	return t.saveNamed(ctx, "aliases", a.Name, a, time.Time{})
}

// DeleteAlias implements admin.Tx.
func (t *configTx) DeleteAlias(ctx context.Context, name string) error {
	return remove(t.with(ctx).Table("aliases"), &namedRow{}, "name = ?", name)
}

// SaveSettings implements admin.Tx.
func (t *configTx) SaveSettings(ctx context.Context, s backend.Settings) error {
	return save(t.with(ctx), &settingsRow{ID: 1, Config: toJSON(s)})
}

type changeRow struct {
	ID     string `gorm:"primaryKey"`
	At     int64
	Actor  string
	Via    string
	Action string
	Target string
	Detail string
}

func (changeRow) TableName() string { return "changes" }

// RecordChange implements admin.Tx.
func (t *configTx) RecordChange(ctx context.Context, c admin.Change) error {
	row := changeRow{ID: c.ID, At: micros(c.At), Actor: c.Actor, Via: c.Via, Action: c.Action, Target: c.Target, Detail: c.Detail}
	if err := t.with(ctx).Create(&row).Error; err != nil {
		return fmt.Errorf("record change: %w", err)
	}
	return nil
}
