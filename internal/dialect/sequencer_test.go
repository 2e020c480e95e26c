package dialect_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// sequence runs feed and collects what comes out, checked against the grammar.
func sequence(o dialect.SequencerOptions, feed func(s *dialect.Sequencer) bool) (*llm.Response, []llm.Event, error) {
	stream := llm.Stream(func(yield func(llm.Event, error) bool) {
		s := dialect.NewSequencer(o, yield)
		s.Start(nil)
		feed(s)
	})
	var seen []llm.Event
	var a llm.Accumulator
	for ev, err := range llm.Check(stream) {
		if err != nil {
			return a.Response(), seen, err
		}
		seen = append(seen, ev)
		a.Add(ev)
	}
	return a.Response(), seen, nil
}

// show prints a choice as one line.
func show(c llm.Choice) string {
	var parts []string
	for _, b := range c.Blocks {
		switch b.Kind {
		case llm.BlockToolCall:
			parts = append(parts, fmt.Sprintf("%s(%s)#%s", b.ToolCall.Name, b.ToolCall.Arguments, b.ToolCall.ID))
		default:
			parts = append(parts, fmt.Sprintf("%s:%s", b.Kind, b.Text))
		}
	}
	return strings.Join(append(parts, string(c.StopReason)), " ")
}

type (
	feed = func(*dialect.Sequencer) bool
	frag = dialect.ToolFragment
)

func text(kind llm.BlockKind, s string) feed {
	return func(q *dialect.Sequencer) bool { return q.Text(0, kind, s, nil) }
}

func tool(f frag) feed { return func(q *dialect.Sequencer) bool { return q.Tool(0, f) } }

func finish(r llm.StopReason) feed {
	return func(q *dialect.Sequencer) bool { return q.Finish(0, r, "") }
}

func TestSequencer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     dialect.SequencerOptions
		feeds []feed
		want  string
	}{
		"text and thinking alternate": {
			feeds: []feed{
				text(llm.BlockThinking, "a"), text(llm.BlockThinking, "b"), text(llm.BlockText, "c"), text(llm.BlockThinking, "d"),
				text(llm.BlockText, "e"), finish(llm.StopEnd),
			},
			want: "thinking:ab text:c thinking:d text:e end",
		},
		"empty text opens nothing": {
			feeds: []feed{text(llm.BlockText, ""), finish(llm.StopEnd)}, want: "end",
		},
		"refusal": {
			feeds: []feed{text(llm.BlockRefusal, "no"), finish(llm.StopRefusal)}, want: "refusal:no refusal",
		},
		"a call in one fragment": {
			feeds: []feed{tool(frag{ID: "x", Name: "f", Arguments: `{"a":1}`}), finish(llm.StopToolUse)},
			want:  `f({"a":1})#x tool_use`,
		},
		"arguments in fragments without id": {
			feeds: []feed{
				tool(frag{ID: "x", Name: "f", Arguments: `{"c`}), tool(frag{Arguments: `ity":`}), tool(frag{Arguments: `"\u00`}),
				tool(frag{Arguments: `e9"}`}), finish(llm.StopToolUse),
			},
			want: `f({"city":"\u00e9"})#x tool_use`,
		},
		"index gaps become dense": {
			feeds: []feed{
				tool(frag{Index: 0, ID: "x", Name: "f", Arguments: `{}`}), tool(frag{Index: 2, ID: "y", Name: "g", Arguments: `{}`}),
				finish(llm.StopToolUse),
			},
			want: `f({})#x g({})#y tool_use`,
		},
		"interleaved fragments": {
			feeds: []feed{
				tool(frag{Index: 0, ID: "x", Name: "f", Arguments: `{"a":`}), tool(frag{Index: 1, ID: "y", Name: "g", Arguments: `{"b":`}),
				tool(frag{Index: 0, Arguments: `1}`}), tool(frag{Index: 1, Arguments: `2}`}), finish(llm.StopToolUse),
			},
			want: `f({"a":1})#x g({"b":2})#y tool_use`,
		},
		"id and name arrive later": {
			feeds: []feed{
				tool(frag{Arguments: ``}), tool(frag{ID: "x", Name: "f"}), tool(frag{Arguments: `{}`}), finish(llm.StopToolUse),
			},
			want: `f({})#x tool_use`,
		},
		"name first, id with the arguments": {
			feeds: []feed{tool(frag{Name: "f"}), tool(frag{ID: "x", Arguments: `{}`}), finish(llm.StopToolUse)},
			want:  `f({})#x tool_use`,
		},
		"missing index: a new id is a new call": {
			feeds: []feed{
				tool(frag{Index: -1, ID: "x", Name: "f", Arguments: `{"a":`}), tool(frag{Index: -1, Arguments: `1}`}),
				tool(frag{Index: -1, ID: "y", Name: "g", Arguments: `{}`}), finish(llm.StopToolUse),
			},
			want: `f({"a":1})#x g({})#y tool_use`,
		},
		"every call has index 0": {
			feeds: []feed{
				tool(frag{ID: "x", Name: "f", Arguments: `{}`}), tool(frag{ID: "y", Name: "f", Arguments: `{}`}), finish(llm.StopToolUse),
			},
			want: `f({})#x f({})#y tool_use`,
		},
		"the id is repeated in every fragment": {
			feeds: []feed{
				tool(frag{ID: "x", Name: "f", Arguments: `{"a"`}), tool(frag{ID: "x", Name: "f", Arguments: `:1}`}), finish(llm.StopToolUse),
			},
			want: `f({"a":1})#x tool_use`,
		},
		"no arguments": {
			feeds: []feed{tool(frag{ID: "x", Name: "f"}), finish(llm.StopToolUse)}, want: `f()#x tool_use`,
		},
		"two calls without arguments": {
			feeds: []feed{tool(frag{ID: "x", Name: "f"}), tool(frag{Index: 1, ID: "y", Name: "g"}), finish(llm.StopToolUse)},
			want:  `f()#x g()#y tool_use`,
		},
		"text between the fragments of a call waits": {
			feeds: []feed{
				tool(frag{ID: "x", Name: "f", Arguments: `{"a":`}), text(llm.BlockText, "\n"), tool(frag{Arguments: `1}`}),
				text(llm.BlockText, "b"), finish(llm.StopToolUse),
			},
			want: "f({\"a\":1})#x text:\nb tool_use",
		},
		"thinking, call, thinking, text": {
			feeds: []feed{
				text(llm.BlockThinking, "a"), tool(frag{ID: "x", Name: "f", Arguments: `{}`}), text(llm.BlockThinking, "b"),
				text(llm.BlockText, "c"), finish(llm.StopEnd),
			},
			want: "thinking:a f({})#x thinking:b text:c tool_use",
		},
		"stop with calls means tool use": {
			feeds: []feed{tool(frag{ID: "x", Name: "f", Arguments: `{}`}), finish(llm.StopEnd)}, want: `f({})#x tool_use`,
		},
		"tool use without calls means the end": {
			feeds: []feed{text(llm.BlockText, "a"), finish(llm.StopToolUse)}, want: `text:a end`,
		},
		"length stays length": {
			feeds: []feed{tool(frag{ID: "x", Name: "f", Arguments: `{"a`}), finish(llm.StopMaxTokens)}, want: `f({"a)#x max_tokens`,
		},
		"what follows the finish is dropped": {
			feeds: []feed{text(llm.BlockText, "a"), finish(llm.StopEnd), text(llm.BlockText, "b"), finish(llm.StopEnd)}, want: "text:a end",
		},
		"only one call": {
			o: dialect.SequencerOptions{OneToolCall: true},
			feeds: []feed{
				tool(frag{ID: "x", Name: "f", Arguments: `{`}), tool(frag{Index: 1, ID: "y", Name: "g", Arguments: `{}`}),
				tool(frag{Arguments: `}`}), finish(llm.StopToolUse),
			},
			want: `f({})#x tool_use`,
		},
		"hidden thinking": {
			o:     dialect.SequencerOptions{HideThinking: true},
			feeds: []feed{text(llm.BlockThinking, "a"), text(llm.BlockText, "b"), finish(llm.StopEnd)},
			want:  "text:b end",
		},
		"hidden thinking is not promoted without leave": {
			o:     dialect.SequencerOptions{HideThinking: true},
			feeds: []feed{text(llm.BlockThinking, "a"), finish(llm.StopEnd)},
			want:  "end",
		},
		"promoted thinking": {
			o:     dialect.SequencerOptions{HideThinking: true, PromoteThinking: true},
			feeds: []feed{text(llm.BlockThinking, "a"), text(llm.BlockThinking, "b"), finish(llm.StopEnd)},
			want:  "text:ab end",
		},
		"promotion needs an empty answer": {
			o:     dialect.SequencerOptions{HideThinking: true, PromoteThinking: true},
			feeds: []feed{text(llm.BlockThinking, "a"), text(llm.BlockText, "b"), finish(llm.StopEnd)},
			want:  "text:b end",
		},
		"tags": {
			o: dialect.SequencerOptions{ThinkTags: true},
			feeds: []feed{
				text(llm.BlockText, "<thi"), text(llm.BlockText, "nk>x<b"), text(llm.BlockText, "></thin"), text(llm.BlockText, "k>\n\ny < z <"),
				finish(llm.StopEnd),
			},
			want: "thinking:x<b> text:y < z < end",
		},
		"tags without splitter are text": {
			feeds: []feed{text(llm.BlockText, "<think>x</think>y"), finish(llm.StopEnd)}, want: "text:<think>x</think>y end",
		},
	} {
		resp, _, err := sequence(c.o, func(s *dialect.Sequencer) bool {
			for _, f := range c.feeds {
				if !f(s) {
					return false
				}
			}
			return true
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := show(resp.Choices[0]); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestSequencerStreamsCallsThatFollowEachOther(t *testing.T) {
	t.Parallel()
	var atSecondCall int
	_, seen, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
		ok := s.Tool(0, frag{ID: "x", Name: "f", Arguments: `{}`}) && s.Tool(0, frag{Index: 1, ID: "y", Name: "g", Arguments: `{"a`})
		atSecondCall = 0
		return ok && s.Tool(0, frag{Index: 1, Arguments: `":1}`}) && s.Finish(0, llm.StopToolUse, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range seen {
		if ev.Kind == llm.EventDelta && ev.Text == `{"a` {
			atSecondCall = i
		}
	}
	if atSecondCall == 0 {
		t.Errorf("the second call did not stream: %+v", seen)
	}
}

func TestSequencerReplacesEmptyAndDuplicateIDs(t *testing.T) {
	t.Parallel()
	resp, _, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
		for range 2 {
			if !s.Tool(0, frag{Name: "f", Arguments: `{}`, Whole: true}) || !s.Tool(0, frag{ID: "same", Name: "f", Arguments: `{}`, Whole: true}) {
				return false
			}
		}
		return s.Finish(0, llm.StopEnd, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	generated := regexp.MustCompile(`^call_[0-9a-f]{24}$`)
	ids := map[string]bool{}
	for i, call := range resp.Choices[0].ToolCalls() {
		if ids[call.ID] || (call.ID != "same" && !generated.MatchString(call.ID)) {
			t.Errorf("call %d has id %q", i, call.ID)
		}
		ids[call.ID] = true
	}
	if len(ids) != 4 || !ids["same"] {
		t.Errorf("ids %v, want four, one of them as sent", ids)
	}
}

func TestSequencerRefusesWhatCannotBeACall(t *testing.T) {
	t.Parallel()
	for name, feeds := range map[string][]feed{
		"no name":               {tool(frag{ID: "x", Arguments: `{}`}), finish(llm.StopToolUse)},
		"goes on after its end": {tool(frag{ID: "x", Name: "f", Arguments: `{}`}), text(llm.BlockText, "a"), tool(frag{Arguments: `{}`}), finish(llm.StopToolUse)},
	} {
		_, _, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
			for _, f := range feeds {
				if !f(s) {
					return false
				}
			}
			return true
		})
		if llm.CodeOf(err) != llm.CodeUpstream {
			t.Errorf("%s: %v, want an upstream error", name, err)
		}
	}
}

func TestSequencerSplitsLongDeltasAtRuneBorders(t *testing.T) {
	t.Parallel()
	long := "x" + strings.Repeat("\U0001f600", 60_000)
	resp, seen, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
		return s.Text(0, llm.BlockText, long, []byte(`[{"token":"x"}]`)) && s.Finish(0, llm.StopEnd, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	deltas, logprobs := 0, 0
	for _, ev := range seen {
		if ev.Kind != llm.EventDelta {
			continue
		}
		deltas++
		if len(ev.Text) > dialect.MaxDelta || strings.ToValidUTF8(ev.Text, "") != ev.Text {
			t.Errorf("a delta of %d bytes breaks a rune or the limit", len(ev.Text))
		}
		if ev.Logprobs != nil {
			logprobs++
		}
	}
	if resp.Choices[0].Text() != long || deltas < 4 || logprobs != 1 {
		t.Errorf("%d deltas, %d with logprobs, text equal: %t", deltas, logprobs, resp.Choices[0].Text() == long)
	}
}

func TestSequencerKeepsLogprobsOfTokensWithoutText(t *testing.T) {
	t.Parallel()
	resp, _, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
		return s.Text(0, llm.BlockText, "", []byte(`[1]`)) && s.Text(0, llm.BlockText, "a", []byte(`[2]`)) &&
			s.Text(0, llm.BlockText, "", []byte(`[3]`)) && s.Finish(0, llm.StopEnd, "")
	})
	if got := fmt.Sprintf("%s", resp.Choices[0].Logprobs); err != nil || got != "[[1,2] [3]]" {
		t.Errorf("logprobs %s, %v, want [[1,2] [3]]", got, err)
	}
}

func TestSequencerUsageNeverShrinks(t *testing.T) {
	t.Parallel()
	resp, _, err := sequence(dialect.SequencerOptions{}, func(s *dialect.Sequencer) bool {
		return s.Usage(llm.Usage{Input: 3, Output: 5}) && s.Usage(llm.Usage{Input: 3, Output: 4}) && s.Finish(0, llm.StopEnd, "")
	})
	if err != nil || resp.Usage.Output != 5 {
		t.Errorf("usage %+v, %v", resp.Usage, err)
	}
}

func TestSequencerStopsWhenTheConsumerDoes(t *testing.T) {
	t.Parallel()
	calls := 0
	s := dialect.NewSequencer(dialect.SequencerOptions{}, func(llm.Event, error) bool { calls++; return false })
	if s.Start(nil) || s.Text(0, llm.BlockText, "a", nil) || s.Finish(0, llm.StopEnd, "") || s.Fail(nil) || calls != 1 {
		t.Errorf("yield was called %d times after the consumer stopped", calls)
	}
}

func TestSequencerObeysTheGrammarWhateverItIsFed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := dialect.SequencerOptions{
			HideThinking: rapid.Bool().Draw(t, "hide"), PromoteThinking: rapid.Bool().Draw(t, "promote"),
			ThinkTags: rapid.Bool().Draw(t, "tags"), OneToolCall: rapid.Bool().Draw(t, "one"),
		}
		steps := rapid.IntRange(0, 20).Draw(t, "steps")
		_, _, err := sequence(o, func(s *dialect.Sequencer) bool {
			for range steps {
				i := rapid.IntRange(0, 2).Draw(t, "choice")
				ok := true
				switch rapid.IntRange(0, 4).Draw(t, "step") {
				case 0, 1:
					kind := rapid.SampledFrom([]llm.BlockKind{llm.BlockText, llm.BlockThinking, llm.BlockRefusal}).Draw(t, "kind")
					ok = s.Text(i, kind, rapid.SampledFrom([]string{"", "a", "<think>", "</th", "ink>"}).Draw(t, "text"), nil)
				case 2, 3:
					ok = s.Tool(i, frag{
						Index: rapid.IntRange(-1, 2).Draw(t, "index"), ID: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "id"),
						Name: rapid.SampledFrom([]string{"", "f", "g"}).Draw(t, "name"), Whole: rapid.Bool().Draw(t, "whole"),
						Arguments: rapid.SampledFrom([]string{"", "{", "}", "{}", `"a":1`}).Draw(t, "arguments"),
					})
				case 4:
					ok = s.Finish(i, llm.StopEnd, "")
				}
				if !ok {
					return false
				}
			}
			for i := range s.Choices() {
				if !s.Finish(i, llm.StopEnd, "") {
					return false
				}
			}
			return s.Finish(0, llm.StopEnd, "")
		})
		if err != nil && llm.CodeOf(err) != llm.CodeUpstream {
			t.Fatalf("%v", err)
		}
	})
}
