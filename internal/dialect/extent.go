package dialect

// jsonExtent follows a JSON object, array or string that arrives in pieces and knows when it is complete. It does not
// validate: it only counts brackets outside strings.
type jsonExtent struct {
	depth    int
	inString bool
	escaped  bool
	begun    bool
	done     bool
}

func (e *jsonExtent) add(s string) {
	for i := 0; i < len(s) && !e.done; i++ {
		c := s[i]
		switch {
		case e.escaped:
			e.escaped = false
		case e.inString:
			switch c {
			case '\\':
				e.escaped = true
			case '"':
				e.inString = false
				e.done = e.depth == 0
			}
		default:
			switch c {
			case ' ', '\t', '\n', '\r':
				continue
			case '"':
				e.inString = true
			case '{', '[':
				e.depth++
			case '}', ']':
				e.depth--
				e.done = e.depth <= 0
			}
			e.begun = true
		}
	}
}

// complete reports whether the value has ended.
func (e *jsonExtent) complete() bool { return e.begun && e.done }
