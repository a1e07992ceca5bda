// Runs every fault test that checks a promised time limit, one after another in one process: `npm run faults`.
// The machine should be idle otherwise.
import './load.test.ts';
import './database.test.ts';
import './silence.test.ts';
import './stop.test.ts';
import './replicas.test.ts';
import '../features/draining.test.ts';
