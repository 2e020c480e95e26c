package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mindrouter/internal/audit"
	"mindrouter/internal/identity"
	"mindrouter/internal/llm"
)

// Explained implements audit.Reader.
func (s *Store) Explained(ctx context.Context, id audit.ID) (audit.Explained, error) {
	var row struct {
		UserID, ModelAsked, ModelResolved, Outcome, Backend, Model, Attempts, Decision, Dropped, EffortAsked, EffortEffective string
		At, FinishedAt, QueueUs                                                                                               int64
	}
	db := s.read.WithContext(ctx).Table("requests").
		Select("user_id, at, model_asked, model_resolved, finished_at, outcome, backend, model, queue_us, attempts, decision, dropped, effort_asked, effort_effective").
		Where("id = ?", string(id)).Limit(1).Scan(&row)
	if errors.Is(db.Error, sql.ErrNoRows) || (db.Error == nil && db.RowsAffected == 0) {
		return audit.Explained{}, audit.ErrUnknownRequest
	}
	if db.Error != nil {
		return audit.Explained{}, fmt.Errorf("read request: %w", db.Error)
	}
	e := audit.Explained{
		ID: id, User: identity.UserID(row.UserID), At: fromMicros(row.At), ModelAsked: row.ModelAsked, ModelResolved: row.ModelResolved,
		Running: row.FinishedAt == 0, Outcome: audit.Outcome(row.Outcome), Backend: row.Backend, Model: row.Model,
		Queue: time.Duration(row.QueueUs) * time.Microsecond, Decision: json.RawMessage("{}"),
		EffortAsked: llm.Effort(row.EffortAsked), EffortEffective: llm.Effort(row.EffortEffective),
	}
	if row.Decision != "" {
		e.Decision = json.RawMessage(row.Decision)
	}
	for text, into := range map[string]any{row.Attempts: &e.Attempts, row.Dropped: &e.Dropped} {
		if text == "" || text == "[]" {
			continue
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return audit.Explained{}, fmt.Errorf("read request %s: %w", id, err)
		}
	}
	return e, nil
}
