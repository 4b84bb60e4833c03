package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A license is known by its text. A module may have several.
func TestLicensesAreKnown(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any\nperson obtaining a copy"
	const bsd = "Redistribution and use in source and binary forms"
	for text, want := range map[string]string{
		mit: "MIT", bsd: "BSD-2-Clause", bsd + " endorse or promote": "BSD-3-Clause", "Mine.": "",
		"Apache License\n   Version 2.0, January 2004":           "Apache-2.0",
		mit + "\nLicensed under the Apache License, Version 2.0": "Apache-2.0 AND MIT",
	} {
		if got := idOf(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Workflows run actions of one commit, whatever their tags are moved to.
func TestActionsArePinned(t *testing.T) {
	files := must(filepath.Glob("../../.github/workflows/*.yml"))(t)
	pinned := regexp.MustCompile(`uses: \S+@[0-9a-f]{40} # v\d`)
	for _, file := range files {
		for line := range strings.Lines(read(t, ".", file)) {
			loose := strings.Contains(line, "uses:") && !pinned.MatchString(line)
			if loose || strings.Contains(line, "@latest") {
				t.Errorf("%s: %s", file, strings.TrimSpace(line))
			}
		}
	}
	if len(files) == 0 {
		t.Error("there are no workflows")
	}
}
