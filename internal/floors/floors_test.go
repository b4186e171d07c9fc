// Package floors holds the rule of the house to account: no import runs upwards, no leaf imports a leaf, and a third-party
// library has one home.
package floors

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "mobilegate/"

// floor of every package, from the ground up. A package that is not listed has no place in the house yet.
var floor = map[string]int{
	"internal/wheel":          0,
	"internal/transcript":     0,
	"internal/floors":         0,
	"internal/pipenet":        0,
	"internal/picture":        0,
	"internal/upstream":       0,
	"internal/terminal":       0,
	"engine":                  1,
	"codec":                   1,
	"media":                   1,
	"agent":                   1,
	"session":                 2,
	"agent/openai":            2,
	"agent/hermes":            2,
	"agent/openai/openaitest": 3, // services to try the agents with
	"agent/hermes/hermestest": 3,
	"admin":                   3,
	"sdk/go":                  3, // a client: it imports nothing of the gateway
	"loadtest":                3, // a client: it imports nothing of the gateway but its words and its loop
	"bench":                   3,
	"bench/vm":                3,
	"interop":                 3,
	"sdk/python":              3, // tests alone: they run the Python client
	"examples":                4, // tests alone: they run the examples in other languages
	"examples/morning":        4,
	"examples/talk":           4,
	"cmd/mobilegate":          4,
	"cmd/loadtest":            4,
	"cmd/fakeagent":           4,
}

// home of a library: the only packages whose shipped code may import it.
var home = map[string][]string{
	"github.com/panjf2000/gnet":         {"engine"},
	"github.com/gobwas/ws":              {"engine"},
	"github.com/valyala/bytebufferpool": {"engine"},
	"github.com/bytedance/sonic":        {"codec"},
	"github.com/clipperhouse/uax29":     {"session"},
	"github.com/coder/websocket":        {"sdk/go"},
	"github.com/vishvananda/netlink":    {"engine"},
	"github.com/HdrHistogram":           {"loadtest"},
	"go.yaml.in/yaml":                   {"loadtest"},
	"github.com/segmentio/asm":          {"media"},
	"github.com/cenkalti/backoff":       {"internal/upstream", "agent/hermes"},
	"github.com/sony/gobreaker":         {"internal/upstream"},
	"golang.org/x/image":                {"internal/picture"},
	"github.com/openai/openai-go":       {"agent/openai"},
	"go.etcd.io/bbolt":                  {"agent/openai"},
	"github.com/tmaxmax/go-sse":         {"agent/hermes"},
	"github.com/VictoriaMetrics":        {"admin"},
	"golang.org/x/sys":                  {"engine", "internal/terminal"},
	// engine: the names of the status codes; media: sniffing; internal/upstream: what a service answers
	"net/http": {"engine", "sdk/go", "media", "admin", "loadtest", "internal/upstream", "agent/openai", "agent/openai/openaitest", "agent/hermes", "agent/hermes/hermestest", "cmd/fakeagent"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		at, known := floor[name]
		require.True(t, known, "%s is on no floor: give it one here", name)
		for _, i := range p.Imports {
			if other, ours := strings.CutPrefix(i, module); ours {
				require.Less(t, floor[other], at, "%s may not import %s: that is no floor below", name, other)
				if name == "loadtest" {
					require.Contains(t, []string{"engine", "codec", "internal/wheel", "internal/transcript"}, other, "loadtest is a client")
				}
				if name == "sdk/go" {
					require.Fail(t, "sdk/go stands alone", "it imports %s", other)
				}
			}
			for library, homes := range home {
				if i == library || strings.HasPrefix(i, library+"/") {
					require.Contains(t, homes, name, "%s has its home in %v", library, homes)
				}
			}
		}
	}
}

// packages lists every package of the module with the imports of the code that ships.
func packages(t *testing.T) (all []pkg) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}
