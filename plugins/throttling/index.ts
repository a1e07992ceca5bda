// throttling:
// May import

export { attempts } from './attempts.ts';
export { networkOf, throttle } from './throttle.ts';
