package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"mindrouter/internal/audit"
)

type requestRow struct {
	ID              string `gorm:"primaryKey"`
	Epoch           string
	At              int64
	UserID          string
	UserName        string
	GroupID         string
	GroupName       string
	KeyID           string
	KeyPrefix       string
	Endpoint        string
	ModelAsked      string
	ModelResolved   string
	Stream          bool
	Class           string
	Boundary        string
	IP              string `gorm:"column:ip"`
	UserAgent       string
	ClientRequestID string
	ReservedTokens  int
	Finish          finishColumns `gorm:"embedded"`
}

func (requestRow) TableName() string { return "requests" }

// finishColumns are written by the Finish event.
type finishColumns struct {
	FinishedAt      int64
	Outcome         string
	Backend         string
	Model           string
	StopReason      string
	ErrorCode       string
	Error           string
	InputTokens     int
	CachedTokens    int
	OutputTokens    int
	ReasoningTokens int
	UsageEstimated  bool
	QueueUS         int64 `gorm:"column:queue_us"`
	FirstTokenUS    int64 `gorm:"column:first_token_us"`
	TotalUS         int64 `gorm:"column:total_us"`
	Attempts        string
	Decision        string
	Dropped         string
	EffortAsked     string
	EffortEffective string
}

type bodyRow struct {
	RequestID string `gorm:"primaryKey"`
	Request   []byte
	Response  []byte
}

func (bodyRow) TableName() string { return "request_bodies" }

type refusalRow struct {
	ID        string `gorm:"primaryKey"`
	At        int64
	UserID    string
	KeyID     string
	KeyPrefix string
	Endpoint  string
	Model     string
	Code      string
	IP        string `gorm:"column:ip"`
}

func (refusalRow) TableName() string { return "refusals" }

// Append implements audit.Store.
func (s *Store) Append(ctx context.Context, entries []audit.Entry) error {
	return s.inTx(ctx, func(db *gorm.DB) error {
		for _, e := range entries {
			var err error
			switch {
			case e.Begin != nil:
				err = s.insertBegin(db, e.Begin)
			case e.Finish != nil:
				err = s.writeFinish(db, e.Finish)
			case e.Refusal != nil:
				err = insertRefusal(db, e.Refusal)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) insertBegin(db *gorm.DB, r *audit.Record) error {
	row := requestRow{
		ID: string(r.ID), Epoch: r.Epoch, At: micros(r.At),
		UserID: string(r.User), UserName: r.UserName, GroupID: string(r.Group), GroupName: r.GroupName,
		KeyID: string(r.Key), KeyPrefix: r.KeyPrefix,
		Endpoint: r.Endpoint, ModelAsked: r.ModelAsked, ModelResolved: r.ModelResolved, Stream: r.Stream,
		Class: string(r.Class), Boundary: string(r.Boundary), IP: r.IP, UserAgent: r.UserAgent,
		ClientRequestID: r.ClientRequestID, ReservedTokens: r.ReservedTokens,
		Finish: finishColumns{Attempts: "[]", Decision: "{}", Dropped: "[]"},
	}
	if err := insertNew(db, &row); err != nil {
		return fmt.Errorf("insert begin: %w", err)
	}
	if r.Content == nil {
		return nil
	}
	if err := insertNew(db, &bodyRow{RequestID: string(r.ID), Request: s.bodies.pack(r.Content)}); err != nil {
		return fmt.Errorf("insert request body: %w", err)
	}
	return nil
}

// insertNew inserts row unless it is there already.
func insertNew(db *gorm.DB, row any) error {
	return db.Clauses(clause.OnConflict{DoNothing: true}).Create(row).Error
}

// writeFinish finishes an open request and settles its charges; a request that is finished already is left alone.
func (s *Store) writeFinish(db *gorm.DB, f *audit.Finish) error {
	res := db.Model(&requestRow{}).Where("id = ? AND finished_at = 0", string(f.ID)).
		Select(finishNames).Updates(requestRow{Finish: finishRow(f)})
	if res.Error != nil {
		return fmt.Errorf("update request: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return nil
	}
	for _, c := range f.Charges {
		if err := charge(db, c); err != nil {
			return fmt.Errorf("charge %s: %w", c.Subject.Scope, err)
		}
	}
	if f.Content == nil {
		return nil
	}
	body := bodyRow{RequestID: string(f.ID), Response: s.bodies.pack(f.Content)}
	return db.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "request_id"}}, DoUpdates: clause.AssignmentColumns([]string{"response"}),
	}).Create(&body).Error
}

var finishNames = []string{
	"FinishedAt", "Outcome", "Backend", "Model", "StopReason", "ErrorCode", "Error", "InputTokens", "CachedTokens",
	"OutputTokens", "ReasoningTokens", "UsageEstimated", "QueueUS", "FirstTokenUS", "TotalUS", "Attempts", "Decision",
	"Dropped", "EffortAsked", "EffortEffective",
}

func finishRow(f *audit.Finish) finishColumns {
	decision := "{}"
	if f.Decision != nil {
		decision = string(f.Decision)
	}
	return finishColumns{
		FinishedAt: micros(f.At), Outcome: string(f.Outcome), Backend: f.Backend, Model: f.Model,
		StopReason: string(f.StopReason), ErrorCode: string(f.ErrorCode), Error: f.Error,
		InputTokens: f.Usage.Input, CachedTokens: f.Usage.CachedInput, OutputTokens: f.Usage.Output,
		ReasoningTokens: f.Usage.Reasoning, UsageEstimated: f.Usage.Estimated,
		QueueUS: f.Queue.Microseconds(), FirstTokenUS: f.FirstToken.Microseconds(), TotalUS: f.Total.Microseconds(),
		Attempts: toJSON(nonNil(f.Attempts)), Decision: decision, Dropped: toJSON(nonNil(f.Dropped)),
		EffortAsked: string(f.EffortAsked), EffortEffective: string(f.EffortEffective),
	}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// charge adds to a counter. A charge of a later period starts it; one of an earlier period, which ended while the
// request ran, moves only the lifetime counter.
func charge(db *gorm.DB, c audit.Charge) error {
	return db.Exec(`
		INSERT INTO usage_counters (scope, scope_id, period_end, used_tokens, lifetime_tokens) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (scope, scope_id) DO UPDATE SET
			used_tokens = CASE
				WHEN excluded.period_end > usage_counters.period_end THEN excluded.used_tokens
				WHEN excluded.period_end = usage_counters.period_end THEN usage_counters.used_tokens + excluded.used_tokens
				ELSE usage_counters.used_tokens END,
			period_end = CASE WHEN excluded.period_end > usage_counters.period_end
				THEN excluded.period_end ELSE usage_counters.period_end END,
			lifetime_tokens = usage_counters.lifetime_tokens + excluded.lifetime_tokens`,
		c.Subject.Scope, c.Subject.ID, micros(c.PeriodEnd), c.Tokens, c.Tokens).Error
}

func insertRefusal(db *gorm.DB, r *audit.Refusal) error {
	return insertNew(db, &refusalRow{
		ID: string(r.ID), At: micros(r.At), UserID: string(r.User), KeyID: string(r.Key), KeyPrefix: r.KeyPrefix,
		Endpoint: r.Endpoint, Model: r.Model, Code: string(r.Code), IP: r.IP,
	})
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
