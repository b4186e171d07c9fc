package agent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExampleInTheDocuments: what docs/agents.md shows is the example that is tested here.
func TestExampleInTheDocuments(t *testing.T) {
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/agents.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(code), "// Diary is")
	example, _, _ = strings.Cut(example, "\nfunc ExampleAgent")
	require.Contains(t, string(page), "```go\n// Diary is"+strings.TrimRight(example, "\n")+"\n```")
	require.Less(t, strings.Count(example, "\n"), 60)
}
