package chaos

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/check"
)

const stepsMax = 8

// stepSchema is a procedure that commits after each step, and says so after that.
const stepSchema = `CREATE PROCEDURE chaos_steps(of_tag bigint, steps int) LANGUAGE plpgsql AS $$
BEGIN
  FOR step IN 1..steps LOOP
    INSERT INTO chaos_step VALUES (of_tag, step);
    UPDATE chaos_stepped SET n = n + 1 WHERE id = of_tag % 4;
    COMMIT;
    RAISE NOTICE 'step %', step;
  END LOOP;
END $$`

// steps calls it. What a notice has told was committed, whatever comes after.
func steps(c *client, t *Tx) error {
	n := int64(1 + c.rng.IntN(stepsMax))
	t.Workload, t.Level, t.Values = wSteps, check.ReadCommitted, []int64{n, 0}
	c.told = &t.Values[1]
	defer func() { c.told = nil }()
	return c.single(t, func() error {
		_, err := c.exec("CALL chaos_steps($1, $2)", t.Tag, n)
		return err
	})
}

// notice hears what the procedure says.
func (c *client) notice(n *pgconn.Notice) {
	if number, ok := strings.CutPrefix(n.Message, "step "); ok && c.told != nil {
		if step, err := strconv.ParseInt(number, 10, 64); err == nil {
			*c.told = step
		}
	}
}
