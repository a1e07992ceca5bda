// demo:
// May import

export { createDemo, type Demo } from './demo.ts';
