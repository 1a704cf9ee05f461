package main

import (
	"os"
	"testing"
)

func TestProgramPages(t *testing.T) {
	const file = "/usr/bin/ebb-agent"
	for line, want := range map[string]bool{
		"00400000-00d7d000 r-xp 00000000 fe:00 1187 /usr/bin/ebb-agent":           true,
		"00d7d000-017fa000 r--p 0097d000 fe:00 1187 /usr/bin/ebb-agent":           true,
		"017fa000-018ad000 rw-p 013fa000 fe:00 1187 /usr/bin/ebb-agent":           false, // written
		"00400000-00d7d000 r-xs 00000000 fe:00 1187 /usr/bin/ebb-agent":           false,
		"00400000-00d7d000 rwxp 00000000 fe:00 1187 /usr/bin/ebb-agent":           false,
		"00400000-00d7d000 r-xp 00000000 fe:00 1187 /usr/bin/other":               false,
		"00400000-00d7d000 r-xp 00000000 fe:00 1187 /usr/bin/ebb-agent (deleted)": false,
		"7ffd0000-7ffd2000 r-xp 00000000 00:00 0 [vdso]":                          false,
		"00d7d000-00400000 r-xp 00000000 fe:00 1187 /usr/bin/ebb-agent":           false,
		"": false, "garbage": false, "-1-2 r-xp 0 0 0 /usr/bin/ebb-agent": false,
	} {
		from, to, ok := programPages(line, file)
		if ok != want || ok && (from >= to || from == 0) {
			t.Errorf("%q: %x to %x, %v; want %v", line, from, to, ok, want)
		}
	}
}

// The program goes on after its pages were taken from under it, and what it has
// written is still there.
func TestReleaseProgram(t *testing.T) {
	before := os.Args[0]
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if os.Args[0] != before || len(long) == 0 {
		t.Error("memory was lost")
	}
}
