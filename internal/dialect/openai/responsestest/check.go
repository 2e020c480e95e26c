// Package responsestest checks what clients of OpenAI's Responses API receive. It reads bytes on its own, strictly, and
// shares no code with the encoder: what a lenient client library forgives is an error here.
package responsestest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// CheckStream checks a whole stream. Its framing: comments, or a name that agrees with the type in one line of data.
// The numbers of its events: from 0, without gaps. Its grammar: response.created and response.in_progress first; items
// numbered densely, one after the other; parts within an item likewise; deltas of the kind of the open part; for
// everything that was said in deltas one event that repeats it whole; items that end as their events say; and as the
// last event one of completed, incomplete and failed, whose response repeats the finished items. It returns that
// response.
func CheckStream(raw []byte) (*Response, error) {
	frames, alive, err := split(raw)
	if err != nil {
		return nil, err
	}
	c := checker{ids: map[string]bool{}}
	for i, f := range frames {
		if c.final != nil {
			return c.final, fmt.Errorf("event %d after the end: %s", i, f.name)
		}
		if err := c.add(i, f); err != nil {
			return c.final, fmt.Errorf("event %d (%s): %w: %s", i, f.name, err, f.data)
		}
	}
	if c.final == nil {
		return nil, errors.New("the stream ends without response.completed, response.incomplete or response.failed")
	}
	c.final.KeepAlives, c.final.Events, c.final.Types = alive, len(frames), c.types
	return c.final, nil
}

type frame struct{ name, data string }

func split(raw []byte) (frames []frame, alive int, err error) {
	switch {
	case !utf8.Valid(raw):
		return nil, 0, errors.New("the stream is not UTF-8")
	case bytes.ContainsRune(raw, '\r'):
		return nil, 0, errors.New("the stream has a carriage return")
	case !bytes.HasSuffix(raw, []byte("\n\n")):
		return nil, 0, errors.New("the stream does not end with a blank line")
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		if strings.HasPrefix(text, ":") && !strings.Contains(text, "\n") {
			alive++
			continue
		}
		head, rest, _ := strings.Cut(text, "\n")
		name, named := strings.CutPrefix(head, "event: ")
		data, ok := strings.CutPrefix(rest, "data: ")
		if !named || !ok || strings.Contains(data, "\n") {
			return nil, 0, fmt.Errorf("an event is not a name and one line of data: %q", text)
		}
		frames = append(frames, frame{name, data})
	}
	return frames, alive, nil
}

type event struct {
	Type     string          `json:"type"`
	Sequence *int            `json:"sequence_number"`
	Response json.RawMessage `json:"response"`
	Item     json.RawMessage `json:"item"`
	ItemID   string          `json:"item_id"`
	Output   *int            `json:"output_index"`
	Content  *int            `json:"content_index"`
	Summary  *int            `json:"summary_index"`
	Part     *Part           `json:"part"`
	Delta    *string         `json:"delta"`
	Logprobs *[]json.RawMessage
	fields   map[string]json.RawMessage
}

type checker struct {
	types []string
	begun int // events of the beginning so far
	id    string
	ids   map[string]bool
	final *Response

	done []json.RawMessage
	open *openItem
}

// openItem is what the events said of the open item so far.
type openItem struct {
	Item
	part     map[string]*openPart // the open part of content and of summary
	text     strings.Builder      // arguments or input
	repeated bool                 // text was told whole
}

type openPart struct {
	Part
	text     strings.Builder
	logprobs int
	repeated bool
}

func (c *checker) add(i int, f frame) error {
	var ev event
	if err := json.Unmarshal([]byte(f.data), &ev); err != nil {
		return fmt.Errorf("not an event: %w", err)
	}
	if err := json.Unmarshal([]byte(f.data), &ev.fields); err != nil {
		return fmt.Errorf("not an event: %w", err)
	}
	if ev.Type != f.name {
		return fmt.Errorf("the data has the type %q", ev.Type)
	}
	if ev.Sequence == nil || *ev.Sequence != i {
		return fmt.Errorf("the sequence number must be %d", i)
	}
	if n := len(c.types); n == 0 || c.types[n-1] != ev.Type {
		c.types = append(c.types, ev.Type)
	}
	if want := []string{"response.created", "response.in_progress"}; c.begun < len(want) {
		if ev.Type != want[c.begun] {
			return fmt.Errorf("%s must come here", want[c.begun])
		}
		return c.begin(ev)
	}
	switch ev.Type {
	case "response.completed", "response.incomplete", "response.failed":
		return c.end(ev)
	case "response.output_item.added":
		return c.itemAdded(ev)
	}
	if err := c.about(ev); err != nil {
		return err
	}
	switch ev.Type {
	case "response.output_item.done":
		return c.itemDone(ev)
	case "response.content_part.added", "response.reasoning_summary_part.added":
		return c.partAdded(ev)
	case "response.content_part.done", "response.reasoning_summary_part.done":
		return c.partDone(ev)
	}
	k, ok := kinds[ev.Type]
	if !ok {
		return errors.New("unknown event")
	}
	if k.part == "" {
		return c.callText(ev, k)
	}
	return c.partText(ev, k)
}

// kind says what an event with text is about: the item or the part that it belongs to, and the key of the text in an
// event that tells it whole, empty for deltas.
type kind struct{ item, part, key string }

var kinds = map[string]kind{
	"response.output_text.delta":             {"message", "output_text", ""},
	"response.output_text.done":              {"message", "output_text", "text"},
	"response.refusal.delta":                 {"message", "refusal", ""},
	"response.refusal.done":                  {"message", "refusal", "refusal"},
	"response.reasoning_text.delta":          {"reasoning", "reasoning_text", ""},
	"response.reasoning_text.done":           {"reasoning", "reasoning_text", "text"},
	"response.reasoning_summary_text.delta":  {"reasoning", "summary_text", ""},
	"response.reasoning_summary_text.done":   {"reasoning", "summary_text", "text"},
	"response.function_call_arguments.delta": {"function_call", "", ""},
	"response.function_call_arguments.done":  {"function_call", "", "arguments"},
	"response.custom_tool_call_input.delta":  {"custom_tool_call", "", ""},
	"response.custom_tool_call_input.done":   {"custom_tool_call", "", "input"},
}

func (c *checker) begin(ev event) error {
	r, err := Read(ev.Response)
	if err != nil {
		return err
	}
	if r.Status != "in_progress" || len(r.Output) != 0 || r.Usage != nil {
		return errors.New("the response has begun or ended already")
	}
	if c.id != "" && c.id != r.ID {
		return errors.New("the response has another id")
	}
	c.id = r.ID
	c.begun++
	return nil
}

// about checks that an event is about the open item.
func (c *checker) about(ev event) error {
	if c.open == nil || ev.Output == nil || *ev.Output != len(c.done) {
		return errors.New("it is not about the open item")
	}
	if ev.Type != "response.output_item.done" && ev.ItemID != c.open.ID {
		return fmt.Errorf("the item is %q", c.open.ID)
	}
	return nil
}

func (c *checker) itemAdded(ev event) error {
	if c.open != nil {
		return errors.New("an item is still open")
	}
	if ev.Output == nil || *ev.Output != len(c.done) {
		return fmt.Errorf("the index must be %d", len(c.done))
	}
	it, err := readItem(ev.Item)
	if err != nil {
		return err
	}
	if it.Status != "in_progress" {
		return errors.New("the item is not in progress")
	}
	if len(it.Content) > 0 || len(it.Summary) > 0 || it.Arguments != "" || it.Input != "" || it.Encrypted != nil {
		return errors.New("the item begins with content")
	}
	if c.ids[it.ID] {
		return fmt.Errorf("id %q is used twice", it.ID)
	}
	if it.CallID != "" && c.ids["call "+it.CallID] {
		return fmt.Errorf("call id %q is used twice", it.CallID)
	}
	c.ids[it.ID] = true
	c.ids["call "+it.CallID] = true
	c.open = &openItem{Item: it, part: map[string]*openPart{}}
	return nil
}

// list returns the list to which an event about a part belongs, and its index there.
func (o *openItem) list(ev event, kind string) (*[]Part, *int, string) {
	if kind == "summary_text" {
		return &o.Summary, ev.Summary, "summary"
	}
	return &o.Content, ev.Content, "content"
}

func (c *checker) partAdded(ev event) error {
	p := ev.Part
	if p == nil {
		return errors.New("no part")
	}
	if err := checkPart(c.open.Type, *p); err != nil {
		return err
	}
	if strings.Contains(ev.Type, "summary") != (p.Type == "summary_text") {
		return fmt.Errorf("a part of type %s", p.Type)
	}
	list, index, name := c.open.list(ev, p.Type)
	switch {
	case c.open.part[name] != nil:
		return errors.New("a part is still open")
	case index == nil || *index != len(*list):
		return fmt.Errorf("the index must be %d", len(*list))
	case p.said() != "":
		return errors.New("the part begins with content")
	}
	c.open.part[name] = &openPart{Part: *p}
	return nil
}

// current returns the open part that an event is about.
func (c *checker) current(ev event, kind string) (*openPart, string, error) {
	list, index, name := c.open.list(ev, kind)
	p := c.open.part[name]
	if p == nil || index == nil || *index != len(*list) || p.Type != kind {
		return nil, "", fmt.Errorf("it is not about an open part of type %s", kind)
	}
	return p, name, nil
}

func (c *checker) partText(ev event, k kind) error {
	p, _, err := c.current(ev, k.part)
	if err != nil {
		return err
	}
	if p.repeated {
		return errors.New("the part goes on after it was told whole")
	}
	if k.part == "output_text" && ev.Logprobs == nil {
		return errors.New("no logprobs")
	}
	if k.key == "" {
		if ev.Logprobs != nil {
			p.logprobs += len(*ev.Logprobs)
		}
		return appendDelta(&p.text, ev, ev.Logprobs != nil && len(*ev.Logprobs) > 0)
	}
	if ev.Logprobs != nil && len(*ev.Logprobs) != p.logprobs {
		return errors.New("the log probabilities are not those of the deltas")
	}
	p.repeated = true
	return sameText(ev, k.key, p.text.String())
}

func appendDelta(b *strings.Builder, ev event, mayBeEmpty bool) error {
	if ev.Delta == nil || (*ev.Delta == "" && !mayBeEmpty) {
		return errors.New("the delta is empty")
	}
	b.WriteString(*ev.Delta)
	return nil
}

func sameText(ev event, key, want string) error {
	var got *string
	if err := json.Unmarshal(ev.fields[key], &got); err != nil || got == nil {
		return fmt.Errorf("no %s", key)
	}
	if *got != want {
		return fmt.Errorf("the deltas said %q", want)
	}
	return nil
}

func (c *checker) partDone(ev event) error {
	if ev.Part == nil {
		return errors.New("no part")
	}
	if strings.Contains(ev.Type, "summary") != (ev.Part.Type == "summary_text") {
		return fmt.Errorf("a part of type %s", ev.Part.Type)
	}
	p, name, err := c.current(ev, ev.Part.Type)
	if err != nil {
		return err
	}
	switch {
	case !p.repeated:
		return errors.New("the part was not told whole before")
	case ev.Part.said() != p.text.String():
		return fmt.Errorf("the deltas said %q", p.text.String())
	case len(ev.Part.Logprobs) != p.logprobs:
		return errors.New("the log probabilities are not those of the deltas")
	}
	if err := checkPart(c.open.Type, *ev.Part); err != nil {
		return err
	}
	list, _, _ := c.open.list(ev, ev.Part.Type)
	*list = append(*list, *ev.Part)
	delete(c.open.part, name)
	return nil
}

func (c *checker) callText(ev event, k kind) error {
	if c.open.Type != k.item {
		return fmt.Errorf("the open item is a %s", c.open.Type)
	}
	if c.open.repeated {
		return errors.New("the call goes on after it was told whole")
	}
	if k.key == "" {
		return appendDelta(&c.open.text, ev, false)
	}
	c.open.repeated = true
	return sameText(ev, k.key, c.open.text.String())
}

func (c *checker) itemDone(ev event) error {
	it, err := readItem(ev.Item)
	if err != nil {
		return err
	}
	o := c.open
	if len(o.part) > 0 {
		return errors.New("a part is still open")
	}
	if it.Status != "completed" && it.Status != "incomplete" {
		return errors.New("the item has not ended")
	}
	call := it.Type == "function_call" || it.Type == "custom_tool_call"
	if call && !o.repeated {
		return errors.New("the call was not told whole before")
	}
	want := o.Item
	want.Status, want.Encrypted = it.Status, it.Encrypted
	switch it.Type {
	case "function_call":
		want.Arguments = o.text.String()
	case "custom_tool_call":
		want.Input = o.text.String()
	}
	if !sameItem(it, want) {
		return fmt.Errorf("the events told %+v", want)
	}
	if it.Type == "function_call" && it.Status == "completed" && !json.Valid([]byte(it.Arguments)) {
		return errors.New("the arguments are not JSON, and the item does not say so")
	}
	c.done = append(c.done, ev.Item)
	c.open = nil
	return nil
}

func sameItem(a, b Item) bool {
	for _, it := range []*Item{&a, &b} {
		if it.Content == nil {
			it.Content = []Part{}
		}
		if it.Summary == nil {
			it.Summary = []Part{}
		}
	}
	return reflect.DeepEqual(a, b)
}

func (c *checker) end(ev event) error {
	r, err := Read(ev.Response)
	if err != nil {
		return err
	}
	switch {
	case "response."+r.Status != ev.Type:
		return fmt.Errorf("the status is %s", r.Status)
	case r.ID != c.id:
		return errors.New("the response has another id")
	case c.open != nil && r.Status != "failed":
		return errors.New("an item is still open")
	}
	var output struct {
		Output []json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(ev.Response, &output); err != nil {
		return err
	}
	if !slices.EqualFunc(output.Output, c.done, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return errors.New("the output is not what the items were")
	}
	c.final = r
	return nil
}
