// Package migrations holds the schema of the database as goose migrations, one set for SQLite and one for PostgreSQL.
// Both sets have the same numbers and end in the same tables and columns; a test holds them together.
//
// Migrations only expand: a column or table that a running older server still uses is removed one release later.
// Times are BIGINT microseconds since 1970 in UTC, 0 for never, so that both databases order and compare them alike.
package migrations

import "embed"

// FS holds the directories sqlite and postgres.
//
//go:embed sqlite/*.sql postgres/*.sql
var FS embed.FS
