package store

import (
	"context"
	"fmt"
	"log/slog"
)

func (s *Store) seal(plain, context string) (string, error) {
	if plain == "" {
		return "", nil
	}
	return s.sealer.Seal([]byte(plain), context)
}

func (s *Store) open(sealed, context string) (string, error) {
	if sealed == "" {
		return "", nil
	}
	plain, err := s.sealer.Open(sealed, context)
	return string(plain), err
}

// openOrLose is open for the catalog, where one secret whose key is lost must not take everything down, least of all the
// command that would mend it: it is told in the log and reads as empty.
func (s *Store) openOrLose(sealed, what, context string) string {
	plain, err := s.open(sealed, context)
	if err != nil {
		s.log.Error("stored secret does not open", slog.String("secret", what), slog.Any("error", err))
		return ""
	}
	return plain
}

// The contexts that sealed values are bound to.
func nodeContext(id string) string    { return "node/" + id }
func backendContext(id string) string { return "backend/" + id }

// LostSecrets lists the stored secrets that the key ring does not open, in words: their key is gone, or they were
// changed. Whoever gives them anew mends them.
func (s *Store) LostSecrets(ctx context.Context) ([]string, error) {
	var lost []string
	var backends []backendRow
	if err := s.read.WithContext(ctx).Order("name").Find(&backends).Error; err != nil {
		return nil, fmt.Errorf("read backends: %w", err)
	}
	for _, b := range backends {
		if _, err := s.open(b.APIKey, backendContext(b.ID)); err != nil {
			lost = append(lost, "api_key of backend "+b.Name)
		}
	}
	var nodes []nodeRow
	if err := s.read.WithContext(ctx).Order("name").Find(&nodes).Error; err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	for _, n := range nodes {
		if _, err := s.open(n.SidecarSecret, nodeContext(n.ID)); err != nil {
			lost = append(lost, "sidecar_secret of node "+n.Name)
		}
	}
	return lost, nil
}
