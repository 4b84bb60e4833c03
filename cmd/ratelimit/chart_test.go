package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The limits of the chart are valid, and the service reads its arguments and variables.
func TestTheChart(t *testing.T) {
	const chart = "chart/"
	text := redistest.Must(os.ReadFile(chart + "values.yaml"))(t)
	var values struct{ Limits map[string]string }
	redistest.NoError(t, yaml.Unmarshal(text, &values))
	for name, text := range values.Limits {
		if _, err := rls.Parse([]rls.File{{Name: name, Data: []byte(text)}}, false); err != nil {
			t.Error(err)
		}
	}
	deployment := redistest.Must(os.ReadFile(chart + "templates/deployment.yaml"))(t)
	source := redistest.Must(os.ReadFile("settings.go"))(t)
	names := regexp.MustCompile(`"--(\w+)"|- \{name: ([A-Z_]+),`).FindAllStringSubmatch(string(deployment),
		-1)
	if len(names) != 8 {
		t.Errorf("the chart names %v", names)
	}
	for _, found := range names {
		if !strings.Contains(string(source), `"`+found[1]+found[2]+`"`) {
			t.Errorf("the chart sets %s, which is unknown", found[0])
		}
	}
}
