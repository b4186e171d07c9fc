package agent

import "strings"

// Instant implements the interface of that name: everything that is no command comes back at once.
func (Echo) Instant(t *Turn) (string, bool) {
	if name, _ := word(t.Text); strings.HasPrefix(name, "/") {
		return "", false
	}
	return t.Text, true
}
