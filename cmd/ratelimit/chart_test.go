package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
)

// The limits of the chart are valid, and its arguments and variables are those that the service reads.
func TestTheChart(t *testing.T) {
	const chart = "../../charts/ratelimit/"
	text, err := os.ReadFile(chart + "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Limits map[string]string }
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for name, text := range values.Limits {
		if _, err := rls.Parse([]rls.File{{Name: name, Data: []byte(text)}}, false); err != nil {
			t.Error(err)
		}
	}
	deployment, err := os.ReadFile(chart + "templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("settings.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`"--(\w+)"|- \{name: ([A-Z_]+),`).FindAllStringSubmatch(string(deployment),
		-1)
	if len(names) != 7 {
		t.Errorf("the chart names %v", names)
	}
	for _, found := range names {
		if !strings.Contains(string(source), `"`+found[1]+found[2]+`"`) {
			t.Errorf("the chart sets %s, which is unknown", found[0])
		}
	}
}
