tidemill plan shop.sql > plan.txt
tidemill run shop.sql --threads 1 > run.txt
tidemill verify shop.sql > verify.txt
