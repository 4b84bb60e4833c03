package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The files of the guide are valid.
func TestTheGuide(t *testing.T) {
	page := redistest.Must(os.ReadFile("../../docs/envoy.md"))(t)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("the guide has no file")
	}
	for _, block := range blocks {
		if _, err := rls.Parse([]rls.File{{Name: "docs/envoy.md", Data: block[1]}}, false); err != nil {
			t.Error(err)
		}
	}
}

