package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// record is a tab-separated file with one line per stage.
type record struct{ file string }

// row is the result of a stage.
type row struct {
	Stage                   string
	Start                   time.Time
	Red                     bool
	Passed, Failed, Skipped int
	Flakes                  []string // package and test
}

var columns = []string{"commit", "dirty", "kernel", "stage", "seed", "seconds", "result", "passed", "failed", "skipped", "rerun"}

func recordFile() record {
	if file := os.Getenv("EBB_RECORD"); file != "" {
		return record{file}
	}
	return record{filepath.Join("bin", "gate.tsv")}
}

// add appends the line of a stage that ends now.
func (r record) add(s row) error {
	result, dirty := "ok", "clean"
	if s.Red {
		result = "RED"
	}
	commit := git("rev-parse", "--short=12", "HEAD")
	if git("status", "--porcelain", "--", ":/", ":(top,exclude)bench/results/full") != "" { // holds the record of test-full
		dirty = "dirty"
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	line := strings.Join([]string{
		commit, dirty, unix.ByteSliceToString(u.Release[:]), s.Stage, os.Getenv("RAPID_SEED"),
		strconv.Itoa(int(time.Since(s.Start).Round(time.Second) / time.Second)), result,
		strconv.Itoa(s.Passed), strconv.Itoa(s.Failed), strconv.Itoa(s.Skipped), strings.Join(s.Flakes, ", "),
	}, "\t") + "\n"
	if _, err := os.Stat(r.file); errors.Is(err, fs.ErrNotExist) {
		line = strings.Join(columns, "\t") + "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// git returns the trimmed output of a git command, or "" outside a repository.
func git(args ...string) string {
	out, _ := exec.Command("git", args...).Output()
	return strings.TrimSpace(string(out))
}

// rows returns the recorded stages. Each has len(columns) fields.
func (r record) rows() (rows [][]string, err error) {
	text, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != len(columns) {
			return nil, fmt.Errorf("%s:%d: %d columns, want %d: remove the file, it is another program's", r.file, n+1, len(fields), len(columns))
		}
		if n > 0 {
			rows = append(rows, fields)
		}
	}
	return rows, nil
}

// flakes returns the flakes of all recorded stages.
func (r record) flakes() (list []string, err error) {
	rows, err := r.rows()
	for _, row := range rows {
		if row[10] != "" {
			list = append(list, strings.Split(row[10], ", ")...)
		}
	}
	return list, err
}

// report prints the stages as a table, and the sums in the last line.
func (r record) report(out io.Writer) error {
	rows, err := r.rows()
	if err != nil {
		return err
	}
	var sums [4]int
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join(columns[3:10], "\t")+"\t")
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row[3:10], "\t")+"\t")
		for i, column := range []int{5, 7, 8, 9} {
			n, err := strconv.Atoi(row[column])
			if err != nil {
				return fmt.Errorf("%s: stage %s: %s: %w", r.file, row[3], columns[column], err)
			}
			sums[i] += n
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	flakes, err := r.flakes()
	if err != nil {
		return err
	}
	for _, flake := range flakes {
		fmt.Fprintln(out, "FLAKE", flake)
	}
	fmt.Fprintf(out, "all stages: %d s\n%d passed, %d failed, %d skipped\n", sums[0], sums[1], sums[2], sums[3])
	return nil
}
