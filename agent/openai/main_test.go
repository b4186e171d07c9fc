package openai

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("OPENAI_TEST_WRITER"); path != "" {
		writeUntilKilled(path)
		return
	}
	goleak.VerifyTestMain(m)
}
