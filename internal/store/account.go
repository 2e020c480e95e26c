package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"mindrouter/internal/identity"
	"mindrouter/internal/quota"
)

// KeysByPrefix implements identity.Store. A prefix that is no text, which a caller may well send, is nobody's; PostgreSQL
// would call it an error.
func (s *Store) KeysByPrefix(ctx context.Context, prefix string) ([]identity.Key, error) {
	if !utf8.ValidString(prefix) || strings.ContainsRune(prefix, 0) {
		return nil, nil
	}
	return many(s.read.WithContext(ctx).Where("prefix = ?", prefix), keyRow.key)
}

// User implements identity.Store.
func (s *Store) User(ctx context.Context, id identity.UserID) (identity.User, error) {
	return one(s.read.WithContext(ctx), userRow.user, "id = ?", string(id))
}

// Group implements identity.Store.
func (s *Store) Group(ctx context.Context, id identity.GroupID) (identity.Group, error) {
	return one(s.read.WithContext(ctx), groupRow.group, "id = ?", string(id))
}

type counterRow struct {
	Scope          string `gorm:"primaryKey"`
	ScopeID        string `gorm:"primaryKey"`
	PeriodEnd      int64
	UsedTokens     int64
	LifetimeTokens int64
}

func (counterRow) TableName() string { return "usage_counters" }

// Counter implements quota.Store.
func (s *Store) Counter(ctx context.Context, sub identity.Subject) (quota.Counter, error) {
	var rows []counterRow
	err := s.read.WithContext(ctx).Where("scope = ? AND scope_id = ?", sub.Scope, sub.ID).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return quota.Counter{Subject: sub}, err
	}
	r := rows[0]
	return quota.Counter{
		Subject: sub, PeriodEnd: fromMicros(r.PeriodEnd), Used: r.UsedTokens, Lifetime: r.LifetimeTokens,
	}, nil
}
