package loadtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mobilegate/engine"
	"mobilegate/loadtest"
)

// The files that are shipped as examples run, small, against the gateway, which does nothing wrong in any of them.
func TestExampleFiles(t *testing.T) {
	files, err := filepath.Glob("scenarios/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			phases, err := loadtest.ReadPhases(text, loadtest.Phase{Devices: 60, Duration: time.Second})
			require.NoError(t, err)
			cfg := loadtest.Config{URL: startGateway(t, engine.Config{MaxConnections: 1000}), Token: token, Phases: phases, Phase: loadtest.Phase{Name: filepath.Base(file)}}
			r, err := loadtest.Run(context.Background(), cfg)
			require.NoError(t, err)
			c := r.Figures.Counts
			require.Len(t, r.Phases, len(phases))
			for _, p := range r.Phases {
				require.Equal(t, p.Figures.Counts[loadtest.Sent], p.Figures.Counts[loadtest.Answered]+p.Figures.Counts[loadtest.Given], "%s: %v %v", p.Does.Name, p.Figures.Counts, p.Figures.Notes)
			}
			require.Positive(t, c[loadtest.Answered])
			for _, i := range []int{loadtest.Failed, loadtest.Dropped, loadtest.Lost, loadtest.Refused, loadtest.Duplicated, loadtest.Reordered, loadtest.Misrouted, loadtest.Corrupted, loadtest.Malformed, loadtest.Stale, loadtest.Missing} {
				require.Zero(t, c[i], "%v %v", c, r.Figures.Notes)
			}
		})
	}
}
