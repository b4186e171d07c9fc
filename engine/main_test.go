package engine

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The pool of goroutines that gnet starts on import and never ends.
var gnetsPool = []goleak.Option{
	goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
	goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
}

// TestMain wants every goroutine ended and, in the ownercheck build, every Buffer given back.
func TestMain(m *testing.M) {
	if os.Getenv(crowdVariable) != "" {
		serveCrowd()
		return
	}
	goleak.VerifyTestMain(allBack{m}, gnetsPool...)
}

type allBack struct{ m *testing.M }

func (a allBack) Run() int {
	code := a.m.Run()
	if n := unreturned(); n != 0 && code == 0 {
		fmt.Printf("%d buffers were not given back\n", n)
		return 1
	}
	return code
}
