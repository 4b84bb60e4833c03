package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const guide = "../../docs/envoy.md"

func read(t *testing.T, pattern string) (text string) {
	t.Helper()
	for _, file := range redistest.Must(filepath.Glob(pattern))(t) {
		text += string(redistest.Must(os.ReadFile(file))(t))
	}
	return text
}

// The files of the guide and of the chart are valid.
func TestTheFilesOfTheGuideAreValid(t *testing.T) {
	var values struct{ Limits map[string]string }
	redistest.NoError(t, yaml.Unmarshal([]byte(read(t, "chart/values.yaml")), &values))
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, guide), -1)
	if len(blocks) == 0 || len(values.Limits) == 0 {
		t.Error("the guide or the chart has no file")
	}
	for _, block := range blocks {
		values.Limits[guide] = block[1]
		for name, text := range values.Limits {
			if _, err := rls.Parse([]rls.File{{Name: name, Data: []byte(text)}}, false); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each name that a pattern finds in one text is in another one, in its form there.
func TestGuideChartAndSettingsNameTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		text, pattern string
		least         int
		in, form      string
	}{
		"the guide has the variables that are read": {"settings.go", `env:"([A-Z_]+)"`, 40, guide, "`NAME"},
		"the guide has the flags": {
			"settings.go", `Var\(&s\.\w+, "(\w+)"`, 9, guide, "`--NAME`",
		},
		"the service reads the variables of the chart": {
			"chart/templates/deployment.yaml", `- \{name: ([A-Z_]+),`, 1, "settings.go", `"NAME"`,
		},
		"the service has the flags of the chart": {
			"chart/templates/deployment.yaml", `"--(\w+)"`, 1, "settings.go", `"NAME"`,
		},
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(read(t, c.text), -1)
		if len(found) < c.least {
			t.Errorf("%s: %d are found", name, len(found))
		}
		in := read(t, c.in)
		for _, one := range found {
			if !strings.Contains(in, strings.Replace(c.form, "NAME", one[1], 1)) {
				t.Errorf("%s, but not %s", name, one[1])
			}
		}
	}
}

// The guide has the bounds of the code. The other tests call these by their names.
func TestTheGuideHasTheBounds(t *testing.T) {
	text := regexp.MustCompile(`(\d) (ms|s)\b`).ReplaceAllString(read(t, guide), "$1$2")
	for _, bound := range []string{
		fmt.Sprintf("with %d calls at once, %v to begin, %d,000 watches of",
			mostStreams, beginning, mostWatches/1000),
		fmt.Sprintf("%d KiB of metadata, %d MiB: Envoy", mostMetadata>>10, mostMessage>>20),
		fmt.Sprintf("%v to arrive, %v beyond %d calls under way", reading, crowded, fewCalls),
		fmt.Sprintf("%d KiB of header", mostHeader>>10),
		fmt.Sprintf("%v to send, %v to read", reading, writing),
		fmt.Sprintf("%d and %d connections; %d scrapes at once", mostScrapers, mostDebuggers, mostScrapes),
		fmt.Sprintf("requests under way have %v to end", draining),
	} {
		if !strings.Contains(text, bound) {
			t.Errorf("the guide does not say %q", bound)
		}
	}
}
