package llm

// RankRequest asks how well texts answer queries: one query for all texts, or a query for each.
type RankRequest struct {
	Model   string
	Queries []string // one, or as many as Texts
	Texts   []string
	// Scored says that the client asked for scores of pairs instead of an order of documents. The servers' endpoints
	// differ, and so do the scales of some models.
	Scored bool
	Origin Dialect
}

// RankResponse holds a score per text, in the order of the texts. Higher is better; the scale is the model's own.
type RankResponse struct {
	Model  string
	Scores []float64
	Usage  Usage
}
