package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"mindrouter/internal/responses"
)

type responseRow struct {
	ID        string `gorm:"primaryKey"`
	Owner     string
	Previous  string
	At        int64
	ExpiresAt int64
	Failed    bool
	Body      []byte // responseBody, packed
}

func (responseRow) TableName() string { return "responses" }

type responseItemRow struct {
	Owner      string `gorm:"primaryKey"`
	ItemID     string `gorm:"primaryKey"`
	ResponseID string `gorm:"primaryKey"`
}

func (responseItemRow) TableName() string { return "response_items" }

// responseBody is what is never searched.
type responseBody struct {
	Input    []json.RawMessage `json:"input"`
	Output   []json.RawMessage `json:"output"`
	Response json.RawMessage   `json:"response"`
}

// SaveResponse implements responses.Store.
func (s *Store) SaveResponse(ctx context.Context, r responses.Stored) error {
	body, err := json.Marshal(responseBody{r.Input, r.Output, r.Response})
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	row := responseRow{r.ID, r.Owner, r.Previous, micros(r.At), micros(r.Expires), r.Failed, s.bodies.pack(body)}
	var items []responseItemRow
	for _, list := range [][]json.RawMessage{r.Input, r.Output} {
		for _, item := range list {
			if id := responses.ItemID(item); id != "" {
				items = append(items, responseItemRow{r.Owner, id, r.ID})
			}
		}
	}
	return s.inTx(ctx, func(tx *gorm.DB) error {
		if err := tx.Create(&row).Error; err != nil {
			return fmt.Errorf("save response: %w", err)
		}
		if len(items) == 0 {
			return nil
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(items, 500).Error; err != nil {
			return fmt.Errorf("save items of a response: %w", err)
		}
		return nil
	})
}

// Response implements responses.Store.
func (s *Store) Response(ctx context.Context, owner, id string, now time.Time) (responses.Stored, error) {
	return s.response(s.read.WithContext(ctx).Where("id = ? AND owner = ? AND expires_at > ?", id, owner, micros(now)))
}

// ResponseWithItem implements responses.Store.
func (s *Store) ResponseWithItem(ctx context.Context, owner, item string, now time.Time) (responses.Stored, error) {
	return s.response(s.read.WithContext(ctx).Where(
		"id IN (SELECT response_id FROM response_items WHERE owner = ? AND item_id = ?) AND owner = ? AND expires_at > ?",
		owner, item, owner, micros(now)).Order("at DESC, id DESC"))
}

func (s *Store) response(query *gorm.DB) (responses.Stored, error) {
	var rows []responseRow
	if err := query.Limit(1).Find(&rows).Error; err != nil {
		return responses.Stored{}, fmt.Errorf("read response: %w", err)
	}
	if len(rows) == 0 {
		return responses.Stored{}, responses.ErrNotFound
	}
	row := rows[0]
	text, err := s.bodies.unpack(row.Body)
	if err != nil {
		return responses.Stored{}, err
	}
	var body responseBody
	if err := json.Unmarshal(text, &body); err != nil {
		return responses.Stored{}, fmt.Errorf("read response %s: %w", row.ID, err)
	}
	return responses.Stored{
		ID: row.ID, Owner: row.Owner, Previous: row.Previous, At: fromMicros(row.At), Expires: fromMicros(row.ExpiresAt),
		Input: body.Input, Output: body.Output, Response: body.Response, Failed: row.Failed,
	}, nil
}

// DeleteResponse implements responses.Store.
func (s *Store) DeleteResponse(ctx context.Context, owner, id string, now time.Time) error {
	return s.inTx(ctx, func(tx *gorm.DB) error {
		res := tx.Where("id = ? AND owner = ? AND expires_at > ?", id, owner, micros(now)).Delete(&responseRow{})
		if res.Error != nil {
			return fmt.Errorf("delete response: %w", res.Error)
		}
		if res.RowsAffected == 0 {
			return responses.ErrNotFound
		}
		return tx.Where("response_id = ?", id).Delete(&responseItemRow{}).Error
	})
}

// ExpireResponses implements responses.Store.
func (s *Store) ExpireResponses(ctx context.Context, now time.Time) (int, error) {
	var n int64
	err := s.inTx(ctx, func(tx *gorm.DB) error {
		err := tx.Exec("DELETE FROM response_items WHERE response_id IN (SELECT id FROM responses WHERE expires_at <= ?)", micros(now)).Error
		if err != nil {
			return err
		}
		res := tx.Where("expires_at <= ?", micros(now)).Delete(&responseRow{})
		n = res.RowsAffected
		return res.Error
	})
	if err != nil {
		return 0, fmt.Errorf("expire responses: %w", err)
	}
	return int(n), nil
}
