package kube

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// desiredPods is how the lines of the metric begin by which a kubelet shows
// that it has heard from every source of its pods. See [Kubelet.read].
const desiredPods = "kubelet_desired_pods{"

// maxMetrics bounds the metrics of a kubelet: about half a megabyte with a
// hundred pods.
const maxMetrics = 16 << 20

// findMetric looks for a line that begins with prefix in the text format of
// Prometheus. It reads to the end, because only then a connection of HTTP/1
// can be used again.
func findMetric(r io.Reader, prefix string) (bool, error) {
	m := &meter{r: r, total: maxMetrics, object: maxMetrics}
	lines := bufio.NewReaderSize(m, 4<<10)
	found := false
	for begin := true; ; {
		line, err := lines.ReadSlice('\n')
		// Of a line that does not fit only the beginning is of interest.
		found = found || begin && err == nil && bytes.HasPrefix(line, []byte(prefix))
		begin = err == nil
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return found, nil
		default:
			return false, err
		}
	}
}
