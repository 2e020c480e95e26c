package anthropic

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// ModelCard is a model as /v1/models shows it.
type ModelCard struct {
	ID            string
	DisplayName   string // the ID if empty
	Created       time.Time
	ContextLength int // tokens; 0 if unknown
	MaxOutput     int // tokens of the longest answer; 0 if unknown
}

// Page says which part of a list a client wants.
type Page struct {
	Limit    int // 1 to 1000
	BeforeID string
	AfterID  string
}

// Limits of a page.
const (
	defaultPage = 20
	maxPage     = 1000
)

// ReadPage reads a page from the query of a request. The error is an *llm.Error.
func ReadPage(q url.Values) (Page, error) {
	p := Page{Limit: defaultPage, BeforeID: q.Get("before_id"), AfterID: q.Get("after_id")}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxPage {
			return p, llm.Invalid("limit", "must be between 1 and %d", maxPage)
		}
		p.Limit = n
	}
	return p, nil
}

// cut returns the page's part of cards, and whether more follow in the direction of the page.
func (p Page) cut(cards []ModelCard) (part []ModelCard, more bool) {
	find := func(id string) int { return slices.IndexFunc(cards, func(c ModelCard) bool { return c.ID == id }) }
	if i := find(p.AfterID); p.AfterID != "" && i >= 0 {
		cards = cards[i+1:]
	}
	if i := find(p.BeforeID); p.BeforeID != "" && i >= 0 {
		cards = cards[:i]
		if len(cards) > p.Limit {
			return cards[len(cards)-p.Limit:], true
		}
	}
	if len(cards) > p.Limit {
		return cards[:p.Limit], true
	}
	return cards, false
}

// EncodeModels returns a page of the body of GET /v1/models. The order of cards must be the same for every page.
func EncodeModels(cards []ModelCard, p Page) []byte {
	part, more := p.cut(cards)
	b := []byte(`{"data":[`)
	for i, c := range part {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCard(b, c)
	}
	b = append(b, `],"has_more":`...)
	b = strconv.AppendBool(b, more)
	var first, last string
	if len(part) > 0 {
		first, last = part[0].ID, part[len(part)-1].ID
	}
	b = append(b, `,"first_id":`...)
	b = appendStringOrNull(b, first)
	b = append(b, `,"last_id":`...)
	b = appendStringOrNull(b, last)
	return append(b, "}\n"...)
}

// EncodeModel returns the body of GET /v1/models/{id}.
func EncodeModel(c ModelCard) []byte { return append(appendCard(nil, c), '\n') }

func appendCard(b []byte, c ModelCard) []byte {
	name := c.DisplayName
	if name == "" {
		name = c.ID
	}
	b = append(b, `{"type":"model","id":`...)
	b = dialect.AppendString(b, c.ID)
	b = append(b, `,"display_name":`...)
	b = dialect.AppendString(b, name)
	b = append(b, `,"created_at":"`...)
	b = c.Created.UTC().AppendFormat(b, time.RFC3339)
	b = append(b, `","max_input_tokens":`...)
	b = appendIntOrNull(b, c.ContextLength)
	b = append(b, `,"max_tokens":`...)
	b = appendIntOrNull(b, c.MaxOutput)
	return append(b, `,"capabilities":null,"lifecycle":"active","line":null,"deprecated_at":null,"retires_at":null}`...)
}

func appendIntOrNull(dst []byte, n int) []byte {
	if n <= 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// Speaks reports whether the headers of a request on a path that several protocols share are those of a client of this
// one.
func Speaks(h http.Header) bool {
	return h.Get("Anthropic-Version") != "" || (h.Get("X-Api-Key") != "" && h.Get("Authorization") == "")
}
