package program

import "log/slog"

// LogStart logs the mode of a program that starts and, in observe mode, how to enable enforce mode.
// file is its configuration, "" if it has none.
func LogStart(log *slog.Logger, enforces bool, file string) {
	where := "in " + file
	if file == "" {
		where = "in a file for --config"
	}
	if enforces {
		log.Info("started in enforce mode", "mode", "enforce", "version", Version(), "reason", "mode: enforce "+where)
		return
	}
	log.Info("started in observe mode: nothing is removed", "mode", "observe", "version", Version(),
		"reason", "mode is observe unless the configuration says otherwise", "to_enforce", "mode: enforce "+where)
}
