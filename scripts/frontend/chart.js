// Charts: uPlot draws ten thousand blocks in a few milliseconds, and weighs a tenth of what larger libraries do.
export { default as uPlot } from "uplot";
