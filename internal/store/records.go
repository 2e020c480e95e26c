package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mindrouter/internal/audit"
)

// recordSQL are the statements of the record, the busiest path of the database. They are prepared once and run without
// gorm, whose statements are made anew in every transaction.
type recordSQL struct {
	begin, requestBody, finish, responseBody, charge, refusal *sql.Stmt
}

var recordQueries = map[string]string{
	"begin": `INSERT INTO requests (id, epoch, at, user_id, user_name, group_id, group_name, key_id, key_prefix, endpoint,
		model_asked, model_resolved, stream, class, boundary, ip, user_agent, client_request_id, reserved_tokens,
		finished_at, outcome, backend, model, stop_reason, error_code, error, input_tokens, cached_tokens, output_tokens,
		reasoning_tokens, usage_estimated, queue_us, first_token_us, total_us, attempts, decision, dropped, effort_asked,
		effort_effective)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
		0, '', '', '', '', '', '', 0, 0, 0, 0, FALSE, 0, 0, 0, '[]', '{}', '[]', '', '')
		ON CONFLICT DO NOTHING`,
	"requestBody": `INSERT INTO request_bodies (request_id, request) VALUES (?, ?) ON CONFLICT DO NOTHING`,
	"finish": `UPDATE requests SET finished_at = ?, outcome = ?, backend = ?, model = ?, stop_reason = ?, error_code = ?,
		error = ?, input_tokens = ?, cached_tokens = ?, output_tokens = ?, reasoning_tokens = ?, usage_estimated = ?,
		queue_us = ?, first_token_us = ?, total_us = ?, attempts = ?, decision = ?, dropped = ?, effort_asked = ?,
		effort_effective = ?
		WHERE id = ? AND finished_at = 0`,
	"responseBody": `INSERT INTO request_bodies (request_id, response) VALUES (?, ?)
		ON CONFLICT (request_id) DO UPDATE SET response = excluded.response`,
	// A charge of a later period starts it; one of an earlier period, which ended while the request ran, moves only the
	// lifetime counter.
	"charge": `INSERT INTO usage_counters (scope, scope_id, period_end, used_tokens, lifetime_tokens) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (scope, scope_id) DO UPDATE SET
			used_tokens = CASE
				WHEN excluded.period_end > usage_counters.period_end THEN excluded.used_tokens
				WHEN excluded.period_end = usage_counters.period_end THEN usage_counters.used_tokens + excluded.used_tokens
				ELSE usage_counters.used_tokens END,
			period_end = CASE WHEN excluded.period_end > usage_counters.period_end
				THEN excluded.period_end ELSE usage_counters.period_end END,
			lifetime_tokens = usage_counters.lifetime_tokens + excluded.lifetime_tokens`,
	"refusal": `INSERT INTO refusals (id, at, user_id, key_id, key_prefix, endpoint, model, code, ip)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
}

// records returns the prepared statements. They are prepared on first use, because the tables must be there.
func (s *Store) records(ctx context.Context) (*recordSQL, error) {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.recordStmts != nil {
		return s.recordStmts, nil
	}
	db, err := s.write.DB()
	if err != nil {
		return nil, err
	}
	r := &recordSQL{}
	for name, into := range map[string]**sql.Stmt{
		"begin": &r.begin, "requestBody": &r.requestBody, "finish": &r.finish, "responseBody": &r.responseBody,
		"charge": &r.charge, "refusal": &r.refusal,
	} {
		if *into, err = db.PrepareContext(ctx, s.bind(recordQueries[name])); err != nil { //nolint:sqlclosecheck // closed with the store
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
	}
	s.recordStmts = r
	return r, nil
}

// bind turns ? into the placeholders of the database.
func (s *Store) bind(query string) string {
	if s.Kind() == SQLite {
		return query
	}
	var b strings.Builder
	for i := 1; ; i++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(i))
		query = after
	}
}

// Append implements audit.Store.
func (s *Store) Append(ctx context.Context, entries []audit.Entry) error {
	stmts, err := s.records(ctx)
	if err != nil {
		return err
	}
	db, err := s.write.DB()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	a := appender{ctx: ctx, tx: tx, sql: stmts, bodies: s.bodies, charges: map[chargeKey]int64{}}
	if err := a.all(entries); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// appender writes one batch in one transaction.
type appender struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call
	tx     *sql.Tx
	sql    *recordSQL
	bodies *bodyCodec
	// charges of the whole batch are added up, so that each counter is written once.
	charges map[chargeKey]int64
	order   []chargeKey
}

type chargeKey struct {
	scope, id string
	periodEnd int64
}

func (a *appender) all(entries []audit.Entry) error {
	for _, e := range entries {
		var err error
		switch {
		case e.Begin != nil:
			err = a.begin(e.Begin)
		case e.Finish != nil:
			err = a.finish(e.Finish)
		case e.Refusal != nil:
			err = a.refusal(e.Refusal)
		}
		if err != nil {
			return err
		}
	}
	for _, k := range a.order {
		if _, err := a.exec(a.sql.charge, k.scope, k.id, k.periodEnd, a.charges[k], a.charges[k]); err != nil {
			return fmt.Errorf("charge %s: %w", k.scope, err)
		}
	}
	return nil
}

// exec runs a statement. Text that comes from clients may hold what a database does not take; it is cleaned here.
func (a *appender) exec(stmt *sql.Stmt, args ...any) (sql.Result, error) {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = clean(s)
		}
	}
	return a.tx.StmtContext(a.ctx, stmt).ExecContext(a.ctx, args...) //nolint:sqlclosecheck // ends with the transaction
}

func (a *appender) begin(r *audit.Record) error {
	_, err := a.exec(a.sql.begin, string(r.ID), r.Epoch, micros(r.At), string(r.User), r.UserName, string(r.Group),
		r.GroupName, string(r.Key), r.KeyPrefix, r.Endpoint, r.ModelAsked, r.ModelResolved, r.Stream, string(r.Class),
		string(r.Boundary), r.IP, r.UserAgent, r.ClientRequestID, r.ReservedTokens)
	if err != nil {
		return fmt.Errorf("insert request: %w", err)
	}
	if r.Content == nil {
		return nil
	}
	if _, err := a.exec(a.sql.requestBody, string(r.ID), a.bodies.pack(r.Content)); err != nil {
		return fmt.Errorf("insert request body: %w", err)
	}
	return nil
}

// finish ends an open request and settles its charges; a request that has ended already is left alone.
func (a *appender) finish(f *audit.Finish) error {
	decision := "{}"
	if f.Decision != nil {
		decision = string(f.Decision)
	}
	res, err := a.exec(a.sql.finish, micros(f.At), string(f.Outcome), f.Backend, f.Model, string(f.StopReason),
		string(f.ErrorCode), f.Error, f.Usage.Input, f.Usage.CachedInput, f.Usage.Output, f.Usage.Reasoning,
		f.Usage.Estimated, f.Queue.Microseconds(), f.FirstToken.Microseconds(), f.Total.Microseconds(),
		toJSON(nonNil(f.Attempts)), decision, toJSON(nonNil(f.Dropped)), string(f.EffortAsked), string(f.EffortEffective),
		string(f.ID))
	if err != nil {
		return fmt.Errorf("update request: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for _, c := range f.Charges {
		k := chargeKey{c.Subject.Scope, c.Subject.ID, micros(c.PeriodEnd)}
		if _, ok := a.charges[k]; !ok {
			a.order = append(a.order, k)
		}
		a.charges[k] += c.Tokens
	}
	if f.Content == nil {
		return nil
	}
	if _, err := a.exec(a.sql.responseBody, string(f.ID), a.bodies.pack(f.Content)); err != nil {
		return fmt.Errorf("insert response body: %w", err)
	}
	return nil
}

func (a *appender) refusal(r *audit.Refusal) error {
	_, err := a.exec(a.sql.refusal, string(r.ID), micros(r.At), string(r.User), string(r.Key), r.KeyPrefix, r.Endpoint,
		r.Model, string(r.Code), r.IP)
	if err != nil {
		return fmt.Errorf("insert refusal: %w", err)
	}
	return nil
}

// clean makes text that every database takes: valid UTF-8 without NUL.
func clean(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type instanceRow struct {
	Epoch       string `gorm:"primaryKey"`
	StartedAt   int64
	HeartbeatAt int64
	EndedAt     int64
}

func (instanceRow) TableName() string { return "instances" }

// StartEpoch registers a server process.
func (s *Store) StartEpoch(ctx context.Context, epoch string, now time.Time) error {
	row := instanceRow{Epoch: epoch, StartedAt: micros(now), HeartbeatAt: micros(now)}
	return s.write.WithContext(ctx).Create(&row).Error
}

// Heartbeat says that the process of epoch lives.
func (s *Store) Heartbeat(ctx context.Context, epoch string, now time.Time) error {
	return s.write.WithContext(ctx).Model(&instanceRow{}).Where("epoch = ?", epoch).Update("heartbeat_at", micros(now)).Error
}

// EndEpoch says that the process of epoch has ended in good order.
func (s *Store) EndEpoch(ctx context.Context, epoch string, now time.Time) error {
	return s.write.WithContext(ctx).Model(&instanceRow{}).Where("epoch = ?", epoch).Update("ended_at", micros(now)).Error
}

// MarkLost implements audit.Store.
func (s *Store) MarkLost(ctx context.Context, self string, alive, now time.Time) (int, error) {
	res := s.write.WithContext(ctx).Exec(`
		UPDATE requests SET finished_at = ?, outcome = ?, error = ?
		WHERE finished_at = 0 AND epoch <> ?
		AND epoch NOT IN (SELECT epoch FROM instances WHERE ended_at = 0 AND heartbeat_at >= ?)`,
		micros(now), string(audit.OutcomeLost), "the server stopped before the request ended", self, micros(alive))
	return int(res.RowsAffected), res.Error
}
